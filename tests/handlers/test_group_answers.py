"""Answers about groups as Apache Kafka 4.3.1 gives them: errors, their order, and items that are named twice."""

import asyncio
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from ottla.errors import ErrorCode
from ottla.handlers import (
    delete_groups,
    describe_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
    txn_offset_commit,
)
from ottla.handlers.operations import NOT_ASKED, ON_GROUPS
from ottla.model import TopicId
from ottla.wire.api.delete_groups import DeleteGroupsRequest
from ottla.wire.api.describe_groups import DescribeGroupsRequest
from ottla.wire.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.wire.api.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from ottla.wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.wire.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.coordinator.transactional import TransactionalProducer
from tests.coordinator.world import Broker, Machine
from tests.replication.world import on_loop, settle

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
MISSING = TopicId(b"?" * 16)


class At:
    def __init__(self, api_version: int) -> None:
        self.api_version = api_version


async def ask(handler: Any, broker: Broker, version: int, request: object) -> Any:
    reply = handler.handle(cast("Any", broker), At(version), request)
    return await reply if hasattr(reply, "__await__") else reply


def partitions(reply: Any) -> list[tuple[str, list[tuple[int, int]]]]:
    return [(it.name, [(each.partition_index, each.error_code) for each in it.partitions]) for it in reply.topics]


@pytest.mark.parametrize(("version", "error", "message"), [(5, ErrorCode.NONE, None), (6, 69, "Group x not found.")])
@on_loop
async def test_describing_a_group_that_does_not_exist(
    tmp_path: Path, version: int, error: int, message: str | None
) -> None:
    broker = await Machine(tmp_path).start()
    request = DescribeGroupsRequest(groups=["x"], include_authorized_operations=True)
    [group] = (await ask(describe_groups, broker, version, request)).groups
    assert (group.error_code, group.error_message, group.group_state) == (error, message, "Dead")
    assert group.authorized_operations == (NOT_ASKED if error else ON_GROUPS)


@on_loop
async def test_a_group_is_described_as_often_as_it_is_named(tmp_path: Path) -> None:
    broker = await Machine(tmp_path).start()
    await broker.form_group()
    request = DescribeGroupsRequest(groups=["readers", "x", "readers"])
    groups = (await ask(describe_groups, broker, 5, request)).groups
    assert [(group.group_id, group.group_state) for group in groups] == [
        ("readers", "Stable"),
        ("x", "Dead"),
        ("readers", "Stable"),
    ]


@on_loop
async def test_a_large_group_is_not_described_without_end(tmp_path: Path) -> None:
    broker = await Machine(tmp_path).start()
    joined = await broker.join_alone()
    assert (await broker.sync(joined, assignment=bytes(500_000))).error is ErrorCode.NONE
    groups = (await ask(describe_groups, broker, 5, DescribeGroupsRequest(groups=["readers"] * 100))).groups
    errors = [group.error_code for group in groups]
    assert errors == [ErrorCode.NONE] * 17 + [ErrorCode.INVALID_REQUEST] * 83


@on_loop
async def test_a_group_is_deleted_once(tmp_path: Path) -> None:
    broker = await Machine(tmp_path).start()
    await broker.commit({0: 5})
    reply = await ask(delete_groups, broker, 2, DeleteGroupsRequest(groups_names=["readers", "x", "readers"]))
    assert [(it.group_id, it.error_code) for it in reply.results] == [
        ("readers", ErrorCode.NONE),
        ("x", ErrorCode.GROUP_ID_NOT_FOUND),
    ]


@pytest.mark.parametrize("missing", ["protocol_type", "protocol_name"])
@on_loop
async def test_protocol_type_and_name_are_mandatory_from_sync_group_5_on(tmp_path: Path, missing: str) -> None:
    broker = await Machine(tmp_path).start()
    joined = await broker.join_alone()
    request = SyncGroupRequest(
        group_id="readers",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
    )
    setattr(request, missing, None)
    assert (await ask(sync_group, broker, 5, request)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert (await ask(sync_group, broker, 4, request)).error_code == ErrorCode.NONE


def deletion(*topics: tuple[str, list[int]], group: str = "readers") -> OffsetDeleteRequest:
    return OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
            )
            for name, indexes in topics
        ],
    )


@on_loop
async def test_assignments_of_a_member_that_waits_for_the_leader_are_not_kept(tmp_path: Path) -> None:
    broker = await Machine(tmp_path).start()
    joining = [broker.join(), broker.join()]
    await settle()
    await broker.pass_time(0)
    joined = [await each for each in joining]
    [follower] = [each for each in joined if each.member_id != each.leader]
    useless = bytes(1000)
    before = sys.getrefcount(useless)
    request = SyncGroupRequest(
        group_id="readers",
        generation_id=follower.generation_id,
        member_id=follower.member_id,
        assignments=[SyncGroupRequestAssignment(member_id=follower.member_id, assignment=useless)],
    )
    reply: asyncio.Task[Any] = asyncio.ensure_future(cast("Any", sync_group).handle(broker, At(4), request))
    del request
    await settle()
    assert not reply.done()
    assert sys.getrefcount(useless) == before
    [leader] = [each for each in joined if each.member_id == each.leader]
    assert (await broker.sync(leader)).error is ErrorCode.NONE
    assert (await reply).error_code == ErrorCode.NONE


@on_loop
async def test_offsets_of_a_group_without_a_name_cannot_be_deleted(tmp_path: Path) -> None:
    broker = await Machine(tmp_path).start()
    reply = await ask(offset_delete, broker, 0, deletion(("clicks", [0]), ("x", [0]), group=""))
    assert (reply.error_code, reply.topics) == (ErrorCode.INVALID_GROUP_ID, [])


@on_loop
async def test_offset_delete_answers_what_it_refuses_first(tmp_path: Path) -> None:
    broker = await Machine(tmp_path).start()
    await broker.commit({0: 5})
    reply = await ask(offset_delete, broker, 0, deletion(("clicks", [0, 9, 1]), ("x", [0]), ("clicks", [8, 2])))
    clicks = [(9, UNKNOWN), (8, UNKNOWN), (0, 0), (1, 0), (2, 0)]
    assert partitions(reply) == [("clicks", clicks), ("x", [(0, UNKNOWN)])]


def commits(*topics: tuple[str, list[int]]) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id="readers",
        topics=[
            OffsetCommitRequestTopic(
                name=name,
                partitions=[
                    OffsetCommitRequestPartition(partition_index=index, committed_offset=5) for index in indexes
                ],
            )
            for name, indexes in topics
        ],
    )


@on_loop
async def test_offset_commit_answers_what_it_refuses_first(tmp_path: Path) -> None:
    broker = await Machine(tmp_path).start()
    await broker.create_topic("views")
    reply = await ask(
        offset_commit, broker, 9, commits(("clicks", [0, 9]), ("views", [0]), ("x", [0]), ("clicks", [1]))
    )
    assert partitions(reply) == [("clicks", [(9, UNKNOWN), (0, 0), (1, 0)]), ("x", [(0, UNKNOWN)]), ("views", [(0, 0)])]


@on_loop
async def test_offset_commit_keeps_the_order_of_what_it_does_not_refuse(tmp_path: Path) -> None:
    broker = await Machine(tmp_path).start()
    reply = await ask(offset_commit, broker, 9, commits(("clicks", [1, 0]), ("clicks", []), ("clicks", [1])))
    assert partitions(reply) == [("clicks", [(1, 0), (0, 0)]), ("clicks", [(1, 0)])]
    assert (await ask(offset_commit, broker, 9, commits())).topics == []


@on_loop
async def test_unknown_topic_ids_in_offset_commit_come_first(tmp_path: Path) -> None:
    broker = await Machine(tmp_path).start()
    clicks = broker.metadata.image.topics["clicks"].topic_id
    request = commits(("", [0, 9]), ("", [1]))
    request.topics[0].topic_id, request.topics[1].topic_id = clicks, MISSING
    reply = await ask(offset_commit, broker, 10, request)
    found = [(it.topic_id, [(each.partition_index, each.error_code) for each in it.partitions]) for it in reply.topics]
    assert found == [(clicks, [(9, UNKNOWN), (0, 0)]), (b"?" * 16, [(1, ErrorCode.UNKNOWN_TOPIC_ID)])]


@on_loop
async def test_txn_offset_commit_answers_what_it_refuses_first(tmp_path: Path) -> None:
    broker = await Machine(tmp_path).start()
    cast("Any", broker).config = broker.metadata.config
    producer = TransactionalProducer(broker)
    await producer.init()
    indexes = {"clicks": [0, 9, 1], "x": [0]}
    request = TxnOffsetCommitRequest(
        transactional_id="t",
        group_id="readers",
        producer_id=producer.producer.producer_id,
        producer_epoch=producer.producer.producer_epoch,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=name,
                partitions=[TxnOffsetCommitRequestPartition(partition_index=it, committed_offset=5) for it in wanted],
            )
            for name, wanted in indexes.items()
        ],
    )
    reply = await ask(txn_offset_commit, broker, 5, request)
    assert partitions(reply) == [("clicks", [(9, UNKNOWN), (0, 0), (1, 0)]), ("x", [(0, UNKNOWN)])]


def fetched(group: str, *topics: tuple[TopicId, list[int]]) -> OffsetFetchRequestGroup:
    wanted = [OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=indexes) for topic_id, indexes in topics]
    return OffsetFetchRequestGroup(group_id=group, topics=wanted or None)


@on_loop
async def test_offset_fetch_answers_unknown_topic_ids_last(tmp_path: Path) -> None:
    broker = await Machine(tmp_path).start()
    await broker.commit({0: 5})
    clicks = broker.metadata.image.topics["clicks"].topic_id
    wanted = fetched("readers", (MISSING, [0]), (clicks, [0]), (TopicId(b"!" * 16), [1]), (clicks, [1]))
    [group] = (await ask(offset_fetch, broker, 10, OffsetFetchRequest(groups=[wanted]))).groups
    assert [(topic.topic_id, topic.partitions[0].error_code) for topic in group.topics] == [
        (clicks, ErrorCode.NONE),
        (clicks, ErrorCode.NONE),
        (b"?" * 16, ErrorCode.UNKNOWN_TOPIC_ID),
        (b"!" * 16, ErrorCode.UNKNOWN_TOPIC_ID),
    ]


@on_loop
async def test_offset_fetch_answers_a_group_and_a_partition_as_often_as_they_are_named(tmp_path: Path) -> None:
    broker = await Machine(tmp_path).start()
    await broker.commit({0: 5})
    clicks = broker.metadata.image.topics["clicks"].topic_id
    groups = [fetched("readers", (clicks, [0, 0])), fetched("x"), fetched("readers"), fetched("readers")]
    reply = await ask(offset_fetch, broker, 10, OffsetFetchRequest(groups=groups))
    found = [(it.group_id, [each.committed_offset for t in it.topics for each in t.partitions]) for it in reply.groups]
    assert found == [("readers", [5, 5]), ("x", []), ("readers", [5]), ("readers", [5])]


@on_loop
async def test_offset_fetch_does_not_repeat_itself_without_end(tmp_path: Path) -> None:
    broker = await Machine(tmp_path).start()
    await broker.commit({0: 5, 1: 6, 2: 7})
    clicks = broker.metadata.image.topics["clicks"].topic_id
    for groups in ([fetched("readers")] * 5_000, [fetched("readers", (clicks, [0] * 20_000)), fetched("readers")]):
        reply = await ask(offset_fetch, broker, 10, OffsetFetchRequest(groups=groups))
        assert len(reply.groups) == len(groups)
        assert sum(len(topic.partitions) for group in reply.groups for topic in group.topics) < 10_010
        assert reply.groups[-1].error_code == ErrorCode.INVALID_REQUEST
