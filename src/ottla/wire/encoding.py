"""The compiler of encoders: from a message class and a version to a function that returns the message in parts.

The message is an object, or the nested tuples that `decoding` describes. The parts are bytes, and between them the
record batches that are still in files. Neighbouring bytes are joined."""

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
from ottla.wire.schema import Array, Blob, Field, FieldType, Fixed, Message, Struct, StructType, Text
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
    return _compile(cls, version, _EncoderSource(version, cls.is_flexible(version)))


def compile_tuple_encoder(cls: type[Message], version: int) -> Encoder:
    return _compile(cls, version, _TupleEncoderSource(version, cls.is_flexible(version)))


def _compile(cls: type[Message], version: int, source: "_EncoderSource") -> Encoder:
    source.line("out = []")
    source.line("parts = []")
    source.struct("message", cls)
    source.flush()
    source.line("if parts or not out: out.append(b''.join(parts))")
    source.line("return out")
    return source.compile(f"encoder of {cls.__name__} v{version}")


class _EncoderSource(Source):
    def __init__(self, version: int, flexible: bool) -> None:
        super().__init__("encode(message)", dict(_SCOPE))
        self._version = version
        self._flexible = flexible
        self._write = "parts.append"

    def emit(self, run: list[tuple[str, str]]) -> None:
        codes = "".join(code for code, _ in run)
        if not codes.strip("x"):
            self.line(f"{self._write}({bytes(len(codes))!r})")
            return
        pack = self.refer(f"pack_{codes.replace('?', 'bool')}", struct.Struct(">" + codes).pack)
        self.line(f"{self._write}({pack}({', '.join(value for _, value in run if value)}))")

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


class _TupleEncoderSource(_EncoderSource):
    def _local(self, place: str) -> str:
        return place

    def struct(self, this: str, cls: type[Struct]) -> None:
        places = [self.name(field.name) for field in cls.__fields__]
        self.line(f"{', '.join(places)}, = {this}")
        pairs = zip(cls.__fields__, places, strict=True)
        present = [(field, place) for field, place in pairs if field.in_version(self._version)]
        at_default = self._conditions_for_one_pack(present)
        if not at_default:
            self._fields(present)
            return
        self.flush()
        with self.block(f"if {' and '.join(at_default)}:"):
            self._pack_at_once(present)
        with self.block("else:"):
            self._fields(present)

    def _conditions_for_one_pack(self, present: list[tuple[Field, str]]) -> list[str]:
        """Under which fields of variable size have their default values, so that the size of the struct is known, as in
        nearly every answer to a Produce. Empty if there are no such fields, or others."""
        conditions = []
        for field, place in present:
            if field.tag is not None:
                conditions.append(f"not ({self._differs(place, field)})")
            elif isinstance(field.type, Array) and field.default is list and not field.nullable(self._version):
                conditions.append(f"not {place}")
            elif not isinstance(field.type, (Fixed, type)) and field.default is None:
                conditions.append(f"{place} is None")
            elif not isinstance(field.type, Fixed):
                return []
        return conditions

    def _pack_at_once(self, present: list[tuple[Field, str]]) -> None:
        for field, place in present:
            if isinstance(field.type, Fixed) and field.tag is None:
                self.run.append((field.type.code, place))
            elif field.tag is None:
                empty = self._no_elements if field.default is list else self._null(field.type)
                self.run.append((f"{len(empty)}s", repr(empty)))
        if self._flexible:
            self.run.append(("x", ""))

    @property
    def _no_elements(self) -> bytes:
        return b"\x01" if self._flexible else b"\0\0\0\0"

    def _differs(self, place: str, field: Field) -> str:
        if isinstance(field.default, StructType):
            return f"{place} != {_default_tuple(field.default)!r}"
        return super()._differs(place, field)


def _default_tuple(cls: StructType) -> tuple[object, ...]:
    return tuple(
        _default_tuple(field.default) if isinstance(field.default, StructType) else field.make_default()
        for field in cls.__fields__
    )
