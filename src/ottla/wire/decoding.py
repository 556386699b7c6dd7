"""The compiler of decoders: from a message class and a version to a function of straight-line `struct` calls.

Truncation is noticed late but surely. A slice past the end comes out short without an error; the position then lies
beyond the end, where any further read fails, and if there is none the check before `return` does.
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

Decoder = Callable[[memoryview, int], tuple[Any, int]]

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


def compile_decoder(cls: type[Message], version: int) -> Decoder:
    is_request = issubclass(cls, Request)
    source = _DecoderSource(version, cls.is_flexible(version), 1 if is_request else INTEGERS_PER_ELEMENT)
    source.line("end = len(buffer)")
    source.line(f"budget = {MAX_REQUEST_ELEMENTS if is_request else MAX_ELEMENTS}")
    source.struct("message", cls)
    source.flush()
    source.line("if position > end: raise truncated(position - end)")
    source.line("return message, position")
    return source.compile(f"decoder of {cls.__name__} v{version}")


class _DecoderSource(Source):
    def __init__(self, version: int, flexible: bool, integers_per_element: int) -> None:
        super().__init__("decode(buffer, position)", dict(_SCOPE))
        self._integers_per_element = integers_per_element
        self._version = version
        self._flexible = flexible

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
        tagged = []
        for field in cls.__fields__:
            place = f"{this}.{field.name}"
            if field.tag is not None or not field.in_version(self._version):
                self.line(f"{place} = {self._default(field)}")
            if not field.in_version(self._version):
                continue
            if field.tag is not None:
                tagged.append((field, place))
            else:
                self._field(place, field)
        if self._flexible:
            self._tagged_fields(tagged)

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
        self, code: Literal["h", "i"], target: str, name: str, nullable: bool, limit: int | None = None
    ) -> Iterator[str]:
        """Read a length into a variable, deal with null, and open the block that reads the content."""
        length = self.name("length")
        self.run.append(("B" if self._flexible else code, length))
        self.flush()
        if self._flexible:
            with self.block(f"if {length} > 127:"):
                self.line(f"{length}, position = read_varint(buffer, position - 1)")
                if limit:
                    self.line(f"if {length} > {limit + 1}: raise string_too_long({length} - 1)")
            self.line(f"{length} -= 1")
        with self.block(f"if {length} < 0:"):
            if nullable:
                self.line(f"if {length} < -1: raise negative({length})")
                self.line(f"{target} = None")
            else:
                self.line(f"raise not_nullable({name!r}) if {length} == -1 else negative({length})")
        with self.block("else:"):
            yield length

    def _array(self, target: str, element: FieldType, name: str, length: str) -> None:
        self.line(f"if {length} > end - position: raise too_many({length}, end - position)")
        is_fixed = isinstance(element, Fixed)
        self.line(f"budget -= {length}{f' // {self._integers_per_element}' if is_fixed else ''}")
        self.line("if budget < 0: raise too_many_in_all()")
        if isinstance(element, Fixed):
            self.line(f"{target} = list(unpack_from(f'>{{{length}}}{element.code}', buffer, position))")
            self.line(f"position += {length} * {struct.calcsize('>' + element.code)}")
            return
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
