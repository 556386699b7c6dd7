"""Responses with errors, for every API and version that the broker serves."""

from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.handlers.registry import HANDLERS, Served
from ottla.testing.messages import can_fail, error_places, error_response, names_topics, topics_named
from ottla.wire import reference
from ottla.wire.api.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.wire.codec import encode, tuple_decoder_of
from ottla.wire.decoding import new_memo
from ottla.wire.schema import Array, Blob, FieldType, Fixed, Message, Struct, Text

CODE = ErrorCode.COORDINATOR_NOT_AVAILABLE
SERVED = {served.api.name: served for served in HANDLERS.values()}
CASES = [
    pytest.param(served, version, id=f"{served.api.name}-{version}")
    for served in HANDLERS.values()
    for version in range(served.api.min_version, served.api.max_version + 1)
]
LIST_WHAT_WAS_NOT_ASKED_FOR = {"Metadata", "DescribeLogDirs", "DescribeTopicPartitions"}


def sample(struct: type[Struct], version: int, number: int = 0) -> Struct:
    """A message in which every list has two items, and every item another number or name."""
    return struct(
        **{
            field.name: _value(field.type, field.name, version, number)
            for field in struct.__fields__
            if field.in_version(version)
        }
    )


def _value(kind: FieldType, name: str, version: int, number: int) -> Any:
    if isinstance(kind, Array):
        return [_value(kind.element, name, version, each) for each in (1, 2)]
    if isinstance(kind, Text):
        return f"{name}-{number}"
    if isinstance(kind, Blob):
        return b""
    if isinstance(kind, Fixed):
        return {"?": False, "16s": bytes([number]) * 16}.get(kind.code, number)
    return sample(kind, version, number)


def received(served: Served, version: int) -> tuple[Any, bool]:
    """The sample as a handler gets it, and whether that is a tuple."""
    request = sample(served.request, version)
    assert isinstance(request, Message)
    decode = served.codec.decoder_of(served.request, version)
    message, _ = decode(memoryview(encode(request, version)), 0, new_memo())
    return message, served.codec.decoder_of is tuple_decoder_of


@pytest.mark.parametrize("served, version", CASES)
def test_every_place_of_the_response_has_the_error(served: Served, version: int) -> None:
    request, is_tuple = received(served, version)
    assert is_tuple == isinstance(request, tuple)
    response_type = served.api.response
    response = error_response(served.request, request, response_type, version)
    for struct, field in error_places(response, version):
        setattr(struct, field, CODE)
    wire = encode(response, version)
    decoded, end = reference.decode(response_type, wire, version)
    assert end == len(wire)
    places = list(error_places(decoded, version))
    assert {getattr(*place) for place in places} <= {CODE}
    assert places or served.api.name in LIST_WHAT_WAS_NOT_ASKED_FOR


@pytest.mark.parametrize("served", HANDLERS.values(), ids=lambda served: served.api.name)
def test_every_served_api_can_fail(served: Served) -> None:
    assert can_fail(served.api.response)


def answered(name: str, version: int) -> Any:
    served = SERVED[name]
    return error_response(served.request, received(served, version)[0], served.api.response, version)


@pytest.mark.parametrize("version", [3, 12])
def test_produce_answers_every_partition(version: int) -> None:
    topics = answered("Produce", version).responses
    assert [topic.name for topic in topics] == ["name-1", "name-2"]
    assert [[part.index for part in topic.partition_responses] for topic in topics] == [[1, 2], [1, 2]]
    assert topics[0].partition_responses[0].base_offset == -1


def test_topics_by_id() -> None:
    topics = answered("Fetch", 18).responses
    assert [topic.topic_id for topic in topics] == [bytes([1]) * 16, bytes([2]) * 16]
    assert [part.partition_index for part in topics[0].partitions] == [1, 2]


def test_lists_of_names_and_numbers() -> None:
    assert [it.group_id for it in answered("DescribeGroups", 6).groups] == ["groups-1", "groups-2"]
    assert [it.group_id for it in answered("DeleteGroups", 2).results] == ["groups_names-1", "groups_names-2"]
    assert [it.key for it in answered("FindCoordinator", 6).coordinators] == [
        "coordinator_keys-1",
        "coordinator_keys-2",
    ]
    assert [it.name for it in answered("DeleteTopics", 5).responses] == ["topic_names-1", "topic_names-2"]
    states = answered("DescribeTransactions", 0).transaction_states
    assert [it.transactional_id for it in states] == ["transactional_ids-1", "transactional_ids-2"]
    groups = answered("OffsetFetch", 9).groups
    assert [part.partition_index for part in groups[1].topics[1].partitions] == [1, 2]


def test_lists_under_other_names() -> None:
    (by_transaction, _) = answered("AddPartitionsToTxn", 5).results_by_transaction
    assert by_transaction.transactional_id == "transactional_id-1"
    assert [it.partition_index for it in by_transaction.topic_results[0].results_by_partition] == [1, 2]
    (old, _) = answered("AddPartitionsToTxn", 3).results_by_topic_v3_and_below
    assert [it.partition_index for it in old.results_by_partition] == [1, 2]
    directories = answered("AlterReplicaLogDirs", 2).results
    assert [it.topic_name for it in directories] == ["name-1", "name-2", "name-1", "name-2"]
    elections = answered("ElectLeaders", 2).replica_election_results
    assert [it.partition_id for it in elections[0].partition_result] == [1, 2]
    configs = answered("DescribeConfigs", 4).results
    assert [(it.resource_type, it.resource_name) for it in configs] == [(1, "resource_name-1"), (2, "resource_name-2")]


@pytest.mark.parametrize(
    "name, version, topics",
    [
        ("Produce", 12, {"name-1", "name-2"}),
        ("Fetch", 12, {"topic-1", "topic-2"}),
        ("Metadata", 9, {"name-1", "name-2"}),
        ("OffsetFetch", 9, {"name-1", "name-2"}),
        ("OffsetCommit", 2, {"name-1", "name-2"}),
        ("CreateTopics", 7, {"name-1", "name-2"}),
        ("ElectLeaders", 2, {"topic-1", "topic-2"}),
        ("DeleteTopics", 5, {"topic_names-1", "topic_names-2"}),
        ("AddPartitionsToTxn", 3, {"name-1", "name-2"}),
        ("AddPartitionsToTxn", 5, {"name-1", "name-2"}),
        ("ListOffsets", 1, {"name-1", "name-2"}),
        ("DescribeConfigs", 4, {"resource_name-2"}),
        ("JoinGroup", 5, set()),
    ],
)
def test_the_topics_of_a_request(name: str, version: int, topics: set[str]) -> None:
    served = SERVED[name]
    assert set(topics_named(served.request, received(served, version)[0], version)) == topics
    assert names_topics(served.request) == bool(topics)


def test_a_request_with_topic_ids() -> None:
    request, _ = received(SERVED["Produce"], 13)
    assert set(topics_named(SERVED["Produce"].request, request, 13)) == {bytes([1]) * 16, bytes([2]) * 16}


def test_names_of_other_things_are_not_topics() -> None:
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name="clicks", configs=[CreatableTopicConfig(name="retention.ms", value="1")])]
    )
    assert list(topics_named(CreateTopicsRequest, request, 7)) == ["clicks"]


def test_apis_without_topics() -> None:
    without = {name for name, served in SERVED.items() if not names_topics(served.request)}
    assert without >= {"Heartbeat", "EndTxn", "InitProducerId", "FindCoordinator", "ApiVersions", "LeaveGroup"}
    assert without.isdisjoint({"TxnOffsetCommit", "DeleteRecords", "OffsetForLeaderEpoch", "DescribeProducers"})
