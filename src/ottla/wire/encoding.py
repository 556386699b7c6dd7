"""The compiler of encoders: from a message class and a version to a function that returns the message in parts.

The parts are bytes, and between them the record batches that are still in files. Neighbouring bytes are joined.
`tuple_encoding` has the compiler of encoders that take nested tuples instead of objects."""

import struct
from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal

from ottla.wire.primitives import (
    MAX_STRING_BYTES,
    EncodeError,
    not_nullable,
    string_too_long,
    write_tagged_fields,
    write_varint,
)
from ottla.wire.schema import Array, Blob, Field, FieldType, Fixed, Message, Struct, Text
from ottla.wire.source import Source

Encoder = Callable[[Any], list[Sized]]


class _Lengths(dict[int, bytes]):
    """From a length to how a flexible version writes it: one more, as a varint."""

    def __missing__(self, length: int) -> bytes:
        encoded = write_varint(length + 1)
        if length < _MAX_KEPT_LENGTH:
            self[length] = encoded
        return encoded


class _Texts(dict[str, bytes]):
    """From a string to how a flexible version writes it. The names of topics are written over and over."""

    def __missing__(self, text: str) -> bytes:
        content = text.encode()
        if len(content) > MAX_STRING_BYTES:
            raise string_too_long(len(content), error=EncodeError)
        encoded = write_varint(len(content) + 1) + content
        if len(encoded) <= _MAX_KEPT_TEXT_SIZE:
            if len(self) >= _MAX_KEPT_TEXTS:
                self.clear()
            self[text] = encoded
        return encoded


_MAX_KEPT_LENGTH = 1 << 12
_MAX_KEPT_TEXTS = 1 << 10
_MAX_KEPT_TEXT_SIZE = 256

_SCOPE = {
    "lengths": _Lengths(),
    "pack": struct.pack,
    "raw": (bytes, bytearray, memoryview),
    "texts": _Texts(),
    "not_nullable": partial(not_nullable, error=EncodeError),
    "write_tagged_fields": write_tagged_fields,
    "write_varint": write_varint,
}


def compile_encoder(cls: type[Message], version: int) -> Encoder:
    source = EncoderSource(version, cls.is_flexible(version))
    return source.compile_message(cls, f"encoder of {cls.__name__} v{version}")


class EncoderSource(Source):
    def __init__(self, version: int, flexible: bool) -> None:
        super().__init__("encode(message)", dict(_SCOPE))
        self._version = version
        self._flexible = flexible
        self._write = "parts.append"

    def compile_message(self, cls: type[Message], title: str) -> Encoder:
        self.line("out = []")
        self.line("parts = []")
        self.struct("message", cls)
        self.flush()
        self.line("if parts or not out: out.append(b''.join(parts))")
        self.line("return out")
        return self.compile(title)

    def emit(self, run: list[tuple[str, str]]) -> None:
        self.line(f"{self._write}({self._packed(run)})")

    def _packed(self, run: list[tuple[str, str]]) -> str:
        """The expression for the bytes of a run."""
        codes = "".join(code for code, _ in run)
        if not codes.strip("x"):
            return repr(bytes(len(codes)))
        if codes == "1s":
            return run[0][1]
        pack = self.refer(f"pack_{codes.replace('?', 'bool')}", struct.Struct(">" + codes).pack)
        return f"{pack}({', '.join(value for _, value in run if value)})"

    def struct(self, this: str, cls: type[Struct]) -> None:
        self._fields([(field, f"{this}.{field.name}") for field in cls.__fields__ if field.in_version(self._version)])

    def _fields(self, present: list[tuple[Field, str]]) -> None:
        for field, place in present:
            if field.tag is None:
                self._field(place, field)
        if self._flexible:
            self._tagged_fields([(field, place) for field, place in present if field.tag is not None])

    def _tagged_fields(self, fields: list[tuple[Field, str]]) -> None:
        if not fields:
            self.run.append(("x", ""))
            return
        self.flush()
        tagged = self.name("tagged")
        self.line(f"{tagged} = []")
        for field, place in sorted(fields, key=lambda item: item[0].tag or 0):
            with self.block(f"if {self._differs(place, field)}:"), self._content() as content:
                self._field(place, field)
                self.flush()
                self.line(f"{tagged}.append(({field.tag}, b''.join({content})))")
        self.line(f"{self._write}(write_tagged_fields({tagged}) if {tagged} else b'\\0')")

    @contextmanager
    def _content(self) -> Iterator[str]:
        """Write for a while into a list of its own, since a tagged field states its size before its content."""
        content, outer = self.name("content"), self._write
        self.line(f"{content} = []")
        self._write = f"{content}.append"
        yield content
        self._write = outer

    def _field(self, place: str, field: Field) -> None:
        self._value(place, field.type, field.name, field.nullable(self._version))

    def _value(self, place: str, field_type: FieldType, name: str, nullable: bool = False) -> None:
        if isinstance(field_type, Fixed):
            self.run.append((field_type.code, place))
            return
        if isinstance(field_type, type):
            self._nested(place, field_type, nullable)
            return
        value = self._local(place)
        if nullable:
            self.flush()
            with self.block(f"if {value} is None:"):
                self.line(f"{self._write}({self._null(field_type)!r})")
            with self.block("else:"):
                self._sized(value, field_type, name)
        else:
            self.line(f"if {value} is None: raise not_nullable({name!r})")
            self._sized(value, field_type, name)

    def _local(self, place: str) -> str:
        """A variable with the value at a place."""
        value = self.name("value")
        self.line(f"{value} = {place}")
        return value

    def _null(self, field_type: FieldType) -> bytes:
        return b"\0" if self._flexible else b"\xff\xff" if isinstance(field_type, Text) else b"\xff\xff\xff\xff"

    def _sized(self, value: str, field_type: Text | Blob | Array, name: str) -> None:
        match field_type:
            case Text() if self._flexible:
                self.flush()
                self.line(f"{self._write}(texts[{value}])")
            case Text():
                self.line(f"{value} = {value}.encode()")
                self._length("h", value)
                self.line(f"{self._write}({value})")
            case Blob(zero_copy):
                self._length("i", value)
                if not zero_copy:
                    self.line(f"{self._write}({value})")
                    return
                with self.block(f"if isinstance({value}, raw):"):
                    self.line(f"{self._write}({value})")
                with self.block("else:"):
                    self.line(f"out += (b''.join(parts), {value})")
                    self.line("parts = []")
            case Array(Fixed(code)):
                self._length("i", value)
                self.line(f"{self._write}(pack(f'>{{len({value})}}{code}', *{value}))")
            case Array(element):
                self._length("i", value)
                item = self.name("item")
                with self.block(f"for {item} in {value}:"):
                    self._value(item, element, name)

    def _length(self, code: Literal["h", "i"], value: str) -> None:
        if not self._flexible:
            self.run.append((code, f"len({value})"))
        self.flush()
        if self._flexible:
            self.line(f"{self._write}(lengths[len({value})])")

    def _nested(self, place: str, cls: type[Struct], nullable: bool) -> None:
        if not nullable:
            self.struct(place, cls)
            return
        self.flush()
        with self.block(f"if {place} is None:"):
            self.run.append(("b", "-1"))
        with self.block("else:"):
            self.run.append(("b", "1"))
            self.struct(place, cls)

    def _differs(self, place: str, field: Field) -> str:
        """The condition under which a tagged field is worth sending: it is not its default."""
        if field.default is list:
            return place
        if isinstance(field.type, type):
            return " or ".join(self._differs(f"{place}.{inner.name}", inner) for inner in field.type.__fields__)
        return f"{place} is not None" if field.default is None else f"{place} != {field.default!r}"
