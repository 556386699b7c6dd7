"""The compiler of encoders: from a message class and a version to a function that returns the parts of its bytes."""

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

_SCOPE = {
    "pack": struct.pack,
    "short_varints": [write_varint(value) for value in range(128)],
    "not_nullable": partial(not_nullable, error=EncodeError),
    "string_too_long": partial(string_too_long, error=EncodeError),
    "write_tagged_fields": write_tagged_fields,
    "write_varint": write_varint,
}


def compile_encoder(cls: type[Message], version: int) -> Encoder:
    source = _EncoderSource(version, cls.is_flexible(version))
    source.line("parts = []")
    source.line("write = parts.append")
    source.struct("message", cls)
    source.flush()
    source.line("return parts")
    return source.compile(f"encoder of {cls.__name__} v{version}")


class _EncoderSource(Source):
    def __init__(self, version: int, flexible: bool) -> None:
        super().__init__("encode(message)", dict(_SCOPE))
        self._version = version
        self._flexible = flexible
        self._write = "write"

    def emit(self, run: list[tuple[str, str]]) -> None:
        codes = "".join(code for code, _ in run)
        if not codes.strip("x"):
            self.line(f"{self._write}({bytes(len(codes))!r})")
            return
        pack = self.refer(f"pack_{codes.replace('?', 'bool')}", struct.Struct(">" + codes).pack)
        self.line(f"{self._write}({pack}({', '.join(value for _, value in run if value)}))")

    def struct(self, this: str, cls: type[Struct]) -> None:
        present = [field for field in cls.__fields__ if field.in_version(self._version)]
        for field in present:
            if field.tag is None:
                self._field(f"{this}.{field.name}", field)
        if self._flexible:
            self._tagged_fields(this, [field for field in present if field.tag is not None])

    def _tagged_fields(self, this: str, fields: list[Field]) -> None:
        if not fields:
            self.run.append(("x", ""))
            return
        self.flush()
        tagged = self.name("tagged")
        self.line(f"{tagged} = []")
        for field in sorted(fields, key=lambda field: field.tag or 0):
            place = f"{this}.{field.name}"
            with self.block(f"if {_differs(place, field)}:"), self._content() as content:
                self._field(place, field)
                self.flush()
                self.line(f"{tagged}.append(({field.tag}, b''.join({content})))")
        self.line(f"{self._write}(write_tagged_fields({tagged}) if {tagged} else b'\\0')")

    @contextmanager
    def _content(self) -> Iterator[str]:
        """Write for a while into a list of its own, since a tagged field states its size before its content."""
        content, write, outer = self.name("content"), self.name("write"), self._write
        self.line(f"{content} = []")
        self.line(f"{write} = {content}.append")
        self._write = write
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
        value = self.name("value")
        self.line(f"{value} = {place}")
        if nullable:
            self.flush()
            with self.block(f"if {value} is None:"):
                null = b"\0" if self._flexible else b"\xff\xff" if isinstance(field_type, Text) else b"\xff\xff\xff\xff"
                self.line(f"{self._write}({null!r})")
            with self.block("else:"):
                self._sized(value, field_type, name)
        else:
            self.line(f"if {value} is None: raise not_nullable({name!r})")
            self._sized(value, field_type, name)

    def _sized(self, value: str, field_type: Text | Blob | Array, name: str) -> None:
        match field_type:
            case Text():
                self.line(f"{value} = {value}.encode()")
                self._length("h", value, limit=MAX_STRING_BYTES)
                self.line(f"{self._write}({value})")
            case Blob():
                self._length("i", value)
                self.line(f"{self._write}({value})")
            case Array(Fixed(code)):
                self._length("i", value)
                self.line(f"{self._write}(pack(f'>{{len({value})}}{code}', *{value}))")
            case Array(element):
                self._length("i", value)
                item = self.name("item")
                with self.block(f"for {item} in {value}:"):
                    self._value(item, element, name)

    def _length(self, code: Literal["h", "i"], value: str, limit: int | None = None) -> None:
        if not self._flexible:
            self.run.append((code, f"len({value})"))
            self.flush()
            return
        self.flush()
        length = self.name("length")
        self.line(f"{length} = len({value}) + 1")
        with self.block(f"if {length} < 128:"):
            self.line(f"{self._write}(short_varints[{length}])")
        with self.block("else:"):
            if limit:
                self.line(f"if {length} > {limit + 1}: raise string_too_long({length} - 1)")
            self.line(f"{self._write}(write_varint({length}))")

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


def _differs(place: str, field: Field) -> str:
    """The condition under which a tagged field is worth sending: it is not its default."""
    if field.default is list:
        return place
    if isinstance(field.type, type):
        return " or ".join(_differs(f"{place}.{inner.name}", inner) for inner in field.type.__fields__)
    return f"{place} is not None" if field.default is None else f"{place} != {field.default!r}"
