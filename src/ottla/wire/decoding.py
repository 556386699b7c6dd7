"""Compiles decoders: from a message class and a version to a function of straight-line `struct` calls.

A decoder detects a truncated message late, but always. A slice past the end is short and raises no error, but the
position is then beyond the end. There the next read fails, or else the check before `return`.
"""

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

from ottla.wire.primitives import (
    INTEGERS_PER_ELEMENT,
    MAX_ELEMENTS,
    MAX_REQUEST_ELEMENTS,
    MAX_STRING_BYTES,
    negative,
    not_nullable,
    read_varint,
    skip_tagged_fields,
    string_too_long,
    too_many,
    too_many_in_all,
    truncated,
    wrong_tag_size,
)
from ottla.wire.schema import Array, Blob, Field, FieldType, Fixed, Message, Request, Struct, Text
from ottla.wire.source import Source

Memo = list[Any]
"""The beginning and the end of the last message of a client: bytes, the size of the beginning, and values."""

Decoder = Callable[[memoryview, int, Memo], tuple[Any, int]]


_SCOPE = {
    "negative": negative,
    "new": object.__new__,
    "not_nullable": not_nullable,
    "unpack_from": struct.unpack_from,
    "read_varint": read_varint,
    "skip_tagged_fields": skip_tagged_fields,
    "string_too_long": string_too_long,
    "too_many": too_many,
    "too_many_in_all": too_many_in_all,
    "truncated": truncated,
    "wrong_tag_size": wrong_tag_size,
}


def new_memo() -> Memo:
    return [None, 0, None, None, None]


def compile_decoder(cls: type[Message], version: int) -> Decoder:
    source = DecoderSource(cls, version)
    return source.compile_message(cls, f"decoder of {cls.__name__} v{version}")


class DecoderSource(Source):
    def __init__(self, cls: type[Message], version: int) -> None:
        super().__init__("decode(buffer, position, memo)", dict(_SCOPE))
        self._version = version
        self._flexible = cls.is_flexible(version)
        is_request = issubclass(cls, Request)
        self._max_elements = MAX_REQUEST_ELEMENTS if is_request else MAX_ELEMENTS
        self._integers_per_element = 1 if is_request else INTEGERS_PER_ELEMENT

    def compile_message(self, cls: type[Message], title: str) -> Callable[..., tuple[Any, int]]:
        self.line("end = len(buffer)")
        self.line(f"budget = {self._max_elements}")
        self.struct("message", cls)
        self.flush()
        self.line("if position > end: raise truncated(position - end)")
        self.line("return message, position")
        return self.compile(title)

    def emit(self, run: list[tuple[str, str]]) -> None:
        codes = "".join(code for code, _ in run)
        targets = ", ".join(target for _, target in run)
        if codes == "B":
            self.line(f"{targets} = buffer[position]")
            self.line("position += 1")
            return
        layout = struct.Struct(">" + codes)
        unpack = self.refer(f"unpack_{codes.replace('?', 'bool')}", layout.unpack_from)
        self.line(f"{targets}{',' if len(run) == 1 else ''} = {unpack}(buffer, position)")
        self.line(f"position += {layout.size}")

    def struct(self, target: str, cls: type[Struct]) -> None:
        this = self.name("struct")
        self.line(f"{target} = {this} = new({self.refer(cls.__name__, cls)})")
        self._fields([(field, f"{this}.{field.name}") for field in cls.__fields__])

    def _fields(self, fields: list[tuple[Field, str]]) -> None:
        self._defaults(fields)
        self._present(fields)
        self._tags(fields)

    def _defaults(self, fields: list[tuple[Field, str]]) -> None:
        for field, place in fields:
            if field.tag is not None or not field.in_version(self._version):
                self.line(f"{place} = {self._default(field)}")

    def _present(self, fields: list[tuple[Field, str]]) -> None:
        for field, place in fields:
            if field.tag is None and field.in_version(self._version):
                self._field(place, field)

    def _tags(self, fields: list[tuple[Field, str]]) -> None:
        if self._flexible:
            known = [(field, place) for field, place in fields if field.tag is not None]
            self._tagged_fields([(field, place) for field, place in known if field.in_version(self._version)])

    def _default(self, field: Field) -> str:
        if field.default is list:
            return "[]"
        if isinstance(field.default, type):
            return self.refer(field.default.__name__, field.default) + "()"
        return repr(field.default)

    def _tagged_fields(self, tagged: list[tuple[Field, str]]) -> None:
        count, tag, stop = self.name("count"), self.name("tag"), self.name("stop")
        self.run.append(("B", count))
        self.flush()
        if not tagged:
            self.line(f"if {count}: position = skip_tagged_fields(buffer, position - 1)")
            return
        with self.block(f"if {count}:"):
            self.line(f"{count}, position = read_varint(buffer, position - 1)")
            with self.block(f"for _ in range({count}):"):
                self.line(f"{tag}, position = read_varint(buffer, position)")
                self.line(f"{stop}, position = read_varint(buffer, position)")
                self.line(f"{stop} += position")
                for field, place in tagged:
                    with self.block(f"if {tag} == {field.tag}:"):
                        self._field(place, field)
                known = ", ".join(str(field.tag) for field, _ in tagged)
                self.line(f"if {tag} not in ({known},): position = {stop}")
                self.line(f"if position != {stop}: raise wrong_tag_size({tag})")

    def _field(self, target: str, field: Field) -> None:
        self._value(target, field.type, field.name, field.nullable(self._version))

    def _value(self, target: str, field_type: FieldType, name: str, nullable: bool = False) -> None:
        match field_type:
            case Fixed(code):
                self.run.append((code, target))
            case Text():
                with self._sized("h", target, name, nullable, limit=MAX_STRING_BYTES) as length:
                    self.line(f"stop = position + {length}")
                    self.line(f"{target} = str(buffer[position:stop], 'utf-8')")
                    self.line("position = stop")
            case Blob(zero_copy):
                with self._sized("i", target, name, nullable) as length:
                    self.line(f"stop = position + {length}")
                    span = "buffer[position:stop]"
                    self.line(f"{target} = {span if zero_copy else f'bytes({span})'}")
                    self.line("position = stop")
            case Array(element):
                with self._sized("i", target, name, nullable) as length:
                    self._array(target, element, name, length)
            case _ if nullable:
                self._nullable_struct(target, field_type)
            case _:
                self.struct(target, field_type)

    @contextmanager
    def _sized(
        self,
        code: Literal["h", "i"],
        target: str,
        name: str,
        nullable: bool,
        limit: int | None = None,
        length: str | None = None,
    ) -> Iterator[str]:
        """Read a length into a variable, handle null, and open the block that reads the content."""
        length = length or self.name("length")
        self.run.append(("B" if self._flexible else code, length))
        self.flush()
        if self._flexible:
            self._longer_varint(length, limit)
            self.line(f"{length} -= 1")
        if not nullable:
            self.line(f"if {length} < 0: raise not_nullable({name!r}) if {length} == -1 else negative({length})")
            yield length
            return
        with self.block(f"if {length} < 0:"):
            self.line(f"if {length} < -1: raise negative({length})")
            self.line(f"{target} = None")
        with self.block("else:"):
            yield length

    def _longer_varint(self, length: str, limit: int | None) -> None:
        """Read the rest of a varint after its first byte. Nearly all have at most two bytes."""
        with self.block(f"if {length} > 127:"):
            more = self.name("more")
            self.line(f"{more} = buffer[position]")
            with self.block(f"if {more} < 128:"):
                self.line(f"{length} += ({more} << 7) - 128")
                self.line("position += 1")
            with self.block("else:"):
                self.line(f"{length}, position = read_varint(buffer, position - 1)")
            if limit:
                self.line(f"if {length} > {limit + 1}: raise string_too_long({length} - 1)")

    def _array(self, target: str, element: FieldType, name: str, length: str) -> None:
        if isinstance(element, Fixed):
            self._check_count(length, f"{length} // {self._integers_per_element}")
            self.line(f"{target} = list(unpack_from(f'>{{{length}}}{element.code}', buffer, position))")
            self.line(f"position += {length} * {struct.calcsize('>' + element.code)}")
        else:
            self._check_count(length)
            self._elements(target, element, name, length)

    def _check_count(self, length: str, weight: str | None = None) -> None:
        self.line(f"if {length} > end - position: raise too_many({length}, end - position)")
        self.line(f"budget -= {weight or length}")
        self.line("if budget < 0: raise too_many_in_all()")

    def _elements(self, target: str, element: FieldType, name: str, length: str) -> None:
        items, item = self.name("items"), self.name("item")
        self.line(f"{target} = {items} = []")
        with self.block(f"for _ in range({length}):"):
            self._value(item, element, name)
            self.flush()
            self.line(f"{items}.append({item})")

    def _nullable_struct(self, target: str, cls: type[Struct]) -> None:
        presence = self.name("presence")
        self.run.append(("b", presence))
        self.flush()
        with self.block(f"if {presence} < 0:"):
            self.line(f"{target} = None")
        with self.block("else:"):
            self.struct(target, cls)
