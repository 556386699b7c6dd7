"""All messages of Ottla, and random instances of them drawn from their schemas."""

from collections.abc import Iterator
from functools import cache
from typing import Any

from hypothesis import strategies as st

from ottla.wire.api import APIS
from ottla.wire.api.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from ottla.wire.api.group_records import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue
from ottla.wire.api.transaction_records import TransactionLogKey, TransactionLogValue
from ottla.wire.schema import Array, Blob, Field, FieldType, Fixed, Message, Struct, Text

MESSAGES: list[type[Message]] = [
    *(message for api in APIS.values() for message in (api.request, api.response)),
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    TransactionLogKey,
    TransactionLogValue,
]

MESSAGE_VERSIONS: list[tuple[type[Message], int]] = [
    (cls, version) for cls in MESSAGES for version in range(cls.min_version, cls.max_version + 1)
]


def message_id(value: object) -> str:
    """The name of a message or a version in parametrized tests."""
    return value.__name__ if isinstance(value, type) else f"v{value}"


def structs_of(cls: type[Struct]) -> Iterator[type[Struct]]:
    """A struct and all structs nested in it."""
    yield cls
    for field in cls.__fields__:
        element = field.type.element if isinstance(field.type, Array) else field.type
        if isinstance(element, type):
            yield from structs_of(element)


_FIXED: dict[str, st.SearchStrategy[Any]] = {
    "?": st.booleans(),
    "b": st.integers(-(2**7), 2**7 - 1),
    "h": st.integers(-(2**15), 2**15 - 1),
    "i": st.integers(-(2**31), 2**31 - 1),
    "q": st.integers(-(2**63), 2**63 - 1),
    "16s": st.just(bytes(16)) | st.binary(min_size=16, max_size=16),
}
_TEXT = st.text(max_size=3) | st.sampled_from(["clicks", "é" * 70])
_BLOB = st.binary(max_size=4) | st.just(bytes(200))

Overrides = tuple[tuple[str, st.SearchStrategy[Any]], ...]
"""Strategies for fields of certain names, for tests that cannot use every value."""


@cache
def structs(cls: type[Struct], version: int, overrides: Overrides = ()) -> st.SearchStrategy[Any]:
    present = [field for field in cls.__fields__ if field.in_version(version)]
    return st.builds(cls, **{f.name: _field(f, version, overrides) for f in present} | _overridden(present, overrides))


def _overridden(fields: list[Field], overrides: Overrides) -> dict[str, st.SearchStrategy[Any]]:
    names = {field.name for field in fields}
    return {name: strategy for name, strategy in overrides if name in names}


def _field(field: Field, version: int, overrides: Overrides) -> st.SearchStrategy[Any]:
    values = _values(field.type, version, overrides)
    if field.nullable(version):
        values = st.none() | values
    return st.just(field.make_default()) | values if field.tag is not None else values


def _values(field_type: FieldType, version: int, overrides: Overrides) -> st.SearchStrategy[Any]:
    match field_type:
        case Fixed(code):
            return _FIXED[code]
        case Text():
            return _TEXT
        case Blob():
            return _BLOB
        case Array(element):
            return st.lists(_values(element, version, overrides), max_size=2)
        case _:
            return structs(field_type, version, overrides)
