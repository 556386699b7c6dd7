"""The largest reply that a small request can ask for, and that others are served while it is made."""

import asyncio
from pathlib import Path

import pytest

from ottla.errors import ErrorCode
from ottla.wire import codec
from ottla.wire.api.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.wire.api.describe_transactions import DescribeTransactionsRequest
from ottla.wire.api.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.api.list_groups import ListGroupsRequest
from ottla.wire.api.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from ottla.wire.api.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from ottla.wire.schema import Request
from tests.server.wire_client import response_of
from tests.server.worlds import Running, asynchronous, running, until

MOST_BYTES = 4 << 20
CLIENT_METRICS_TYPE = 16
GROUP_TYPE = 32


def describe(resource_type: int, count: int) -> DescribeConfigsRequest:
    resources = [
        DescribeConfigsResource(resource_type=resource_type, resource_name=str(number), configuration_keys=None)
        for number in range(count)
    ]
    return DescribeConfigsRequest(resources=resources, include_synonyms=True, include_documentation=True)


@pytest.mark.parametrize("resource_type", [GROUP_TYPE, CLIENT_METRICS_TYPE])
@pytest.mark.parametrize(("count", "refused"), [(1000, False), (1001, True), (10_000, True)])
@asynchronous
async def test_names_without_a_resource_get_a_short_reply(
    resource_type: int, count: int, refused: bool, tmp_path: Path
) -> None:
    async with running(tmp_path) as world:
        reply = await world.call(describe(resource_type, count), 4, DescribeConfigsResponse)
    assert len(reply.results) == count
    assert {result.error_code for result in reply.results} == {ErrorCode.INVALID_REQUEST if refused else ErrorCode.NONE}
    assert len(codec.encode(reply, 4)) < MOST_BYTES


def commit(group: str, *partitions: int) -> OffsetCommitRequest:
    offsets = [OffsetCommitRequestPartition(partition_index=it, committed_offset=1) for it in partitions]
    return OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequestTopic(name="clicks", partitions=offsets)])


async def with_groups(world: Running, count: int) -> None:
    """Groups that have committed offsets of two partitions."""
    await world.broker.metadata.create_topic("clicks", partitions=2)
    await world.broker.groups.locate("0")
    await until(lambda: bool(world.broker.groups._shards.loaded()))
    for number in range(count):
        reply = await world.call(commit(str(number), 0, 1), 8, OffsetCommitResponse)
        assert {it.error_code for it in reply.topics[0].partitions} == {ErrorCode.NONE}


def everything(count: int) -> OffsetFetchRequest:
    groups = [OffsetFetchRequestGroup(group_id=str(number), topics=None) for number in range(count)]
    return OffsetFetchRequest(groups=groups)


MARKER = WritableTxnMarker(topics=[WritableTxnMarkerTopic(name="clicks", partition_indexes=[0])])


@pytest.mark.parametrize(
    ("request_", "version", "items"),
    [
        (DescribeTransactionsRequest(transactional_ids=[str(number) for number in range(500)]), 0, 500),
        (ListGroupsRequest(), 5, 50),
        (everything(50), 8, 50),
        (WriteTxnMarkersRequest(markers=[MARKER] * 500), 1, 500),
        (ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="clicks", partitions=[0] * 20_000)]), 2, 100),
    ],
    ids=["DescribeTransactions", "ListGroups", "OffsetFetch", "WriteTxnMarkers", "ElectLeaders"],
)
@asynchronous
async def test_others_are_served_meanwhile(
    request_: Request, version: int, items: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.handlers.yielding._SLICE_SECONDS", -1.0)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with running(tmp_path) as world:
        await with_groups(world, 50)
        task = asyncio.ensure_future(other())
        await world.call(request_, version, response_of(request_))
        task.cancel()
    assert turns >= items


@asynchronous
async def test_others_are_served_while_transactions_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.handlers.yielding._SLICE_SECONDS", -1.0)
    async with running(tmp_path, {"transaction.state.log.num.partitions": "1"}) as world:
        transactions = world.broker.transactions
        await transactions.locate("0")
        await until(lambda: bool(transactions._shards.loaded()))
        for number in range(20):
            begin = InitProducerIdRequest(transactional_id=f"t{number}", transaction_timeout_ms=60_000)
            reply = await world.call(begin, 4, InitProducerIdResponse)
            assert reply.error_code == ErrorCode.NONE
        listing = asyncio.ensure_future(
            world.call(ListTransactionsRequest(transactional_id_pattern="t1.*"), 2, ListTransactionsResponse)
        )
        turns = 0
        while not listing.done():
            turns += 1
            await asyncio.sleep(0)
        listed = await listing
    assert sorted(it.transactional_id for it in listed.transaction_states) == ["t1", *(f"t1{it}" for it in range(10))]
    assert turns >= 20


@asynchronous
async def test_the_offsets_of_all_groups_are_too_many_for_one_reply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.handlers.offset_fetch.MAX_OFFSETS", 5)
    async with running(tmp_path) as world:
        await with_groups(world, 4)
        groups = (await world.call(everything(4), 8, OffsetFetchResponse)).groups
    assert [(len(group.topics), group.error_code) for group in groups] == [
        (1, ErrorCode.NONE),
        (1, ErrorCode.NONE),
        (0, ErrorCode.INVALID_REQUEST),
        (0, ErrorCode.INVALID_REQUEST),
    ]
