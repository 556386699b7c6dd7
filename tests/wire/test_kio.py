"""Ottla's codec against kio, an independent implementation of the protocol, for every message and version.

kio names durations without their unit, and has its own Python types for times, durations, ids and error codes.
"""

import dataclasses
import datetime
import io
import uuid
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import kio.schema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_reader, entity_writer

from ottla.errors import ErrorCode
from ottla.wire import codec
from ottla.wire.api import APIS, INIT_PRODUCER_ID
from ottla.wire.schema import Array, Message, Struct
from tests.wire.messages import MESSAGE_VERSIONS, MESSAGES, message_id, structs

ABSENT_FROM_KIO = {
    "GroupMetadataKey",
    "GroupMetadataValue",
    "OffsetCommitKey",
    "OffsetCommitValue",
    "TransactionLogKey",
    "TransactionLogValue",
}
"""The coordinators' records, which are not part of the client protocol. kio has all other messages."""

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MILLISECOND = datetime.timedelta(milliseconds=1)

error_codes = st.sampled_from([int(code) for code in ErrorCode])
representable = (
    ("error_code", error_codes),
    ("topic_config_error_code", error_codes),
    ("partition_error_code", error_codes),
    ("log_append_time_ms", st.just(-1) | st.integers(0, 2**42)),
    ("transaction_start_time_ms", st.integers(0, 2**42)),
    ("retention_time_ms", st.integers(-(2**40), 2**40)),
)
"""kio accepts only defined error codes, and times that a datetime can represent."""


@cache
def kio_class(cls: type[Message], version: int) -> Any:
    suffix = next(suffix for suffix in ("Request", "Response", "") if cls.__name__.endswith(suffix))
    folder = snake_case(cls.__name__.removesuffix(suffix))
    return getattr(import_module(f"kio.schema.{folder}.v{version}.{suffix.lower() or 'data'}"), cls.__name__)


def snake_case(name: str) -> str:
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in name).removeprefix("_")


def to_kio(struct: Struct, kio_type: Any, version: int) -> Any:
    """The same message as an instance of kio's class, which has the fields of the version in the same order."""
    present = [field for field in struct.__fields__ if field.in_version(version)]
    theirs = dataclasses.fields(kio_type)
    assert [field.name.removesuffix("_ms") for field in present] == [field.name for field in theirs]
    values = {}
    for field, their in zip(present, theirs, strict=True):
        value = getattr(struct, field.name)
        if isinstance(field.type, Array) and value is not None:
            values[their.name] = tuple(value_to_kio(item, their, version) for item in value)
        else:
            values[their.name] = value_to_kio(value, their, version)
    return kio_type(**values)


def value_to_kio(value: Any, field: Any, version: int) -> Any:
    if isinstance(value, Struct):
        return to_kio(value, nested_type(field.type), version)
    match field.metadata.get("kafka_type"):
        case "error_code":
            return KioErrorCode(value)
        case "timedelta_i32" | "timedelta_i64":
            return value * MILLISECOND
        case "datetime_i64":
            return None if value == -1 else EPOCH + value * MILLISECOND
        case "uuid":
            return None if value == bytes(16) else uuid.UUID(bytes=value)
        case _:
            return value


def nested_type(annotation: Any) -> Any:
    """The class inside `X`, `X | None`, `tuple[X, ...]` or `tuple[X, ...] | None`."""
    while not dataclasses.is_dataclass(annotation):
        annotation = annotation.__args__[0]
    return annotation


def kio_encode(entity: Any) -> bytes:
    with io.BytesIO() as out:
        entity_writer(type(entity))(out, entity)
        return out.getvalue()


in_kio = [(cls, version) for cls, version in MESSAGE_VERSIONS if cls.__name__ not in ABSENT_FROM_KIO]


@pytest.mark.parametrize("cls, version", in_kio, ids=message_id)
def test_kio_reads_ours_and_we_read_kios(cls: type[Message], version: int) -> None:
    kio_type = kio_class(cls, version)

    @settings(max_examples=6, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(structs(cls, version, representable))
    def check(message: Message) -> None:
        encoded = codec.encode(message, version)
        entity = to_kio(message, kio_type, version)
        decoded, size = entity_reader(kio_type)(encoded, 0)
        assert decoded == entity
        assert size == len(encoded)
        kio_encoded = kio_encode(entity)
        assert codec.decode(cls, kio_encoded, version) == (message, len(kio_encoded))
        assert kio_encoded == encoded

    check()


@pytest.mark.parametrize("cls, version", in_kio, ids=message_id)
def test_defaults_are_kios(cls: type[Message], version: int) -> None:
    def check(ours: type[Struct], theirs: Any) -> None:
        present = [field for field in ours.__fields__ if field.in_version(version)]
        for field, their in zip(present, dataclasses.fields(theirs), strict=True):
            element = field.type.element if isinstance(field.type, Array) else field.type
            if isinstance(element, type):
                check(element, nested_type(their.type))
            elif their.default is not dataclasses.MISSING:
                default = field.make_default()
                assert their.default == (() if default == [] else value_to_kio(default, their, version)), field.name

    check(cls, kio_class(cls, version))


def test_versions_are_kios() -> None:
    for api in APIS.values():
        folder = Path(kio.schema.__path__[0]) / snake_case(api.name)
        versions = sorted(int(path.name[1:]) for path in folder.glob("v*"))
        if api is INIT_PRODUCER_ID:
            versions.remove(6)  # Kafka 4.3 marks this version as unstable and does not offer it.
        assert versions == list(range(api.min_version, api.max_version + 1)), api.name
        for version in versions:
            assert api.is_flexible(version) == kio_class(api.request, version).__flexible__
            assert api.key == kio_class(api.request, version).__api_key__


def test_absent_messages_are_absent() -> None:
    for cls in MESSAGES:
        if cls.__name__ in ABSENT_FROM_KIO:
            assert not (Path(kio.schema.__path__[0]) / snake_case(cls.__name__)).exists()
