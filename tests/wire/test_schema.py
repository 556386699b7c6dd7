import subprocess
import sys
import typing
from typing import Any

import pytest

from ottla.model import TopicId
from ottla.wire.api import APIS
from ottla.wire.api.fetch import EpochEndOffset, FetchPartition, FetchRequest, FetchTopic, PartitionData
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.schema import Array, Blob, Field, FieldType, Fixed, Struct, Text
from tests.wire.messages import MESSAGES, message_id, structs_of


def test_every_field_has_a_default() -> None:
    partition = FetchPartition()
    assert partition.current_leader_epoch == -1
    assert partition.replica_directory_id == bytes(16)
    assert MetadataRequest().allow_auto_topic_creation is True
    assert PartitionData().records is None
    assert PartitionData().diverging_epoch == EpochEndOffset(epoch=-1, end_offset=-1)


def test_mutable_defaults_are_not_shared() -> None:
    FetchRequest().topics.append(FetchTopic())
    assert FetchRequest().topics == []
    PartitionData().diverging_epoch.epoch = 7
    assert PartitionData().diverging_epoch.epoch == -1


def test_fields_are_keywords_and_slots() -> None:
    topic = FetchTopic(topic="clicks", partitions=[FetchPartition(partition=2)])
    assert topic.topic == "clicks"
    assert topic.partitions[0].partition == 2
    with pytest.raises(TypeError):
        FetchTopic(colour="red")  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        topic.colour = "red"  # type: ignore[attr-defined]


def test_equality_and_repr() -> None:
    assert FetchTopic(topic="a") == FetchTopic(topic="a")
    assert FetchTopic(topic="a") != FetchTopic(topic="b")
    assert EpochEndOffset(epoch=1) != 1
    assert repr(EpochEndOffset(epoch=1)) == "EpochEndOffset(epoch=1, end_offset=-1)"


def test_requests_know_their_versions() -> None:
    assert (FetchRequest.api_key, FetchRequest.min_version, FetchRequest.max_version) == (1, 4, 18)
    assert FetchRequest.flexible_since == 12
    assert APIS[1].request is FetchRequest


def python_type(field_type: FieldType) -> Any:
    match field_type:
        case Fixed("?"):
            return bool
        case Fixed("16s"):
            return bytes
        case Fixed():
            return int
        case Text():
            return str
        case Blob():
            return bytes
        case Array(element):
            return list[python_type(element)]  # type: ignore[misc]
        case _:
            return field_type


def annotation_of(field: Field) -> Any:
    return python_type(field.type) | None if field.nullable_since is not None else python_type(field.type)


@pytest.mark.parametrize("message", MESSAGES, ids=message_id)
def test_annotations_say_what_the_schema_says(message: type[Struct]) -> None:
    for cls in structs_of(message):
        hints = typing.get_type_hints(cls)
        for field in cls.__fields__:
            if field.type == Blob(zero_copy=True):
                continue  # Record batches can be a received view, bytes, or a slice of a file.
            hint = bytes if hints[field.name] is TopicId else hints[field.name]
            assert hint == annotation_of(field), f"{cls.__name__}.{field.name}"


@pytest.mark.parametrize("message", MESSAGES, ids=message_id)
def test_declarations_make_sense(message: type[Struct]) -> None:
    for cls in structs_of(message):
        tags = [field.tag for field in cls.__fields__ if field.tag is not None]
        assert tags == sorted(set(tags))
        for field in cls.__fields__:
            assert field.since <= field.until
            assert field.default is not None or field.nullable_since is not None


def test_importing_one_api_imports_no_other() -> None:
    script = "import sys, ottla.wire.api.fetch; print(*(name for name in sys.modules if 'wire.api.' in name))"
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert output.split() == ["ottla.wire.api.fetch"]
