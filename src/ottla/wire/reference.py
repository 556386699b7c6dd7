"""The definition of the encoding: handles the schema field by field, one primitive at a time.

It is much slower than `codec`. Tests check that both give the same bytes, the same values and the same errors.
"""

from typing import Any, TypeVar

from ottla.wire.primitives import (
    INTEGERS_PER_ELEMENT,
    MAX_ELEMENTS,
    MAX_REQUEST_ELEMENTS,
    MAX_STRING_BYTES,
    EncodeError,
    LengthFormat,
    not_nullable,
    read_fixed,
    read_length,
    read_span,
    read_text,
    read_varint,
    string_too_long,
    too_many,
    too_many_in_all,
    write_fixed,
    write_length,
    write_tagged_fields,
    wrong_tag_size,
)
from ottla.wire.schema import Array, Blob, Field, FieldType, Fixed, Message, Request, Struct, Text

M = TypeVar("M", bound=Message)
S = TypeVar("S", bound=Struct)


def decode(cls: type[M], buffer: memoryview | bytes, version: int, position: int = 0) -> tuple[M, int]:
    cls.check_version(version)
    reader = _Reader(memoryview(buffer), position, version, cls.is_flexible(version), issubclass(cls, Request))
    return reader.struct(cls), reader.position


def encode(message: Message, version: int) -> bytes:
    message.check_version(version, EncodeError)
    return _Writer(version, message.is_flexible(version)).struct(message)


class _Dialect:
    """The fields and the length format of a message version."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible

    def fields(self, struct: Struct | type[Struct], *, tagged: bool) -> list[Field]:
        present = [field for field in struct.__fields__ if field.in_version(self.version)]
        return [field for field in present if (field.tag is not None) == tagged]

    def length_format(self, field_type: FieldType) -> LengthFormat:
        if self.flexible:
            return "compact"
        return "h" if isinstance(field_type, Text) else "i"


class _Reader(_Dialect):
    def __init__(self, buffer: memoryview, position: int, version: int, flexible: bool, is_request: bool) -> None:
        super().__init__(version, flexible)
        self.buffer = buffer
        self.position = position
        self.budget = MAX_REQUEST_ELEMENTS if is_request else MAX_ELEMENTS
        self.integers_per_element = 1 if is_request else INTEGERS_PER_ELEMENT

    def struct(self, cls: type[S]) -> S:
        this = cls()
        for field in self.fields(cls, tagged=False):
            setattr(this, field.name, self.field(field))
        if self.flexible:
            self.tagged_fields(this)
        return this

    def tagged_fields(self, this: Struct) -> None:
        known = {field.tag: field for field in self.fields(this, tagged=True)}
        for _ in range(self.take(read_varint)):
            tag, size = self.take(read_varint), self.take(read_varint)
            stop = self.position + size
            if tag in known:
                setattr(this, known[tag].name, self.field(known[tag]))
            else:
                self.take(read_span, size)
            if self.position != stop:
                raise wrong_tag_size(tag)

    def field(self, field: Field) -> Any:
        nullable = field.nullable(self.version)
        if isinstance(field.type, type):
            absent = nullable and self.take_fixed("b") < 0
            return None if absent else self.struct(field.type)
        value = self.value(field.type)
        if value is None and not nullable:
            raise not_nullable(field.name)
        return value

    def value(self, field_type: FieldType) -> Any:
        if isinstance(field_type, Fixed):
            return self.take_fixed(field_type.code)
        if isinstance(field_type, type):
            return self.struct(field_type)
        length, self.position = read_length(self.length_format(field_type), self.buffer, self.position)
        if length is None:
            return None
        match field_type:
            case Text():
                return self.take(read_text, length)
            case Blob(zero_copy):
                span = self.take(read_span, length)
                return span if zero_copy else bytes(span)
            case Array(element):
                return self.array(element, length)

    def array(self, element: FieldType, count: int) -> list[Any]:
        room = len(self.buffer) - self.position
        if count > room:
            raise too_many(count, room)
        self.budget -= count // self.integers_per_element if isinstance(element, Fixed) else count
        if self.budget < 0:
            raise too_many_in_all()
        items = []
        for _ in range(count):
            item = self.value(element)
            if item is None:
                raise not_nullable("an array's element")
            items.append(item)
        return items

    def take(self, read: Any, *arguments: int) -> Any:
        value, self.position = read(self.buffer, self.position, *arguments)
        return value

    def take_fixed(self, code: str) -> Any:
        value, self.position = read_fixed(code, self.buffer, self.position)
        return value


class _Writer(_Dialect):
    def struct(self, this: Struct) -> bytes:
        content = b"".join(self.field(field, this) for field in self.fields(this, tagged=False))
        return content + self.tagged_fields(this) if self.flexible else content

    def tagged_fields(self, this: Struct) -> bytes:
        """The tagged fields with a value other than the default, in the order of their tags."""
        fields = [
            field for field in self.fields(this, tagged=True) if getattr(this, field.name) != field.make_default()
        ]
        return write_tagged_fields(sorted((field.tag or 0, self.field(field, this)) for field in fields))

    def field(self, field: Field, this: Struct) -> bytes:
        value = getattr(this, field.name)
        nullable = field.nullable(self.version)
        if value is None and not nullable:
            raise not_nullable(field.name, EncodeError)
        if nullable and isinstance(field.type, type):
            return b"\xff" if value is None else b"\x01" + self.struct(value)
        return self.value(field.type, value)

    def value(self, field_type: FieldType, value: Any) -> bytes:
        if isinstance(field_type, Fixed):
            return write_fixed(field_type.code, value)
        if isinstance(field_type, type):
            return self.struct(value)
        if value is None:
            return write_length(self.length_format(field_type), None)
        match field_type:
            case Text():
                content = self.text(value)
            case Blob():
                content = bytes(value)
            case Array(element):
                content = b"".join(self.value(element, item) for item in value)
        length = len(value) if isinstance(field_type, Array) else len(content)
        return write_length(self.length_format(field_type), length) + content

    def text(self, value: str) -> bytes:
        try:
            content = value.encode()
        except UnicodeEncodeError as error:
            raise EncodeError(f"a string is not text: {error.reason}") from None
        if len(content) > MAX_STRING_BYTES:
            raise string_too_long(len(content), EncodeError)
        return content
