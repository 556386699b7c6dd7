"""Values and sizes at their limits: a client that uses them gets an answer, and nobody else notices."""

import asyncio
from pathlib import Path

import pytest

from ottla.errors import ErrorCode
from ottla.model import GROUP_OFFSETS_TOPIC, TopicPartition
from ottla.txn.commands import PROTOCOL_1, PROTOCOL_2
from tests.coordinator.transactional import TransactionalProducer
from tests.coordinator.world import Broker, Machine
from tests.replication.world import on_loop, settle

LONG = "g" * 30_000
"""A group id of which 40 make a batch that is too large."""
MANY = 80
DAY = 24 * 60 * 60.0


async def broker_with_offsets_of_long_groups(machine: Machine, settings: dict[str, str] | None = None) -> Broker:
    broker = await machine.start(settings)
    await broker.create_topic("wide", MANY)
    for first in range(0, MANY, 10):
        offsets = dict.fromkeys(range(first, first + 10), 1)
        assert await broker.commit(offsets, group=LONG, topic="wide") == {ErrorCode.NONE}
    assert await broker.commit({0: 1}, group="short", topic="wide") == {ErrorCode.NONE}
    return broker


@pytest.mark.parametrize("retention", [2**63 - 1, 2**62, -(2**63), -2, 0])
@on_loop
async def test_any_retention_can_be_asked_for(tmp_path: Path, retention: int) -> None:
    machine = Machine(tmp_path)
    broker = await machine.start()
    assert await broker.commit({0: 5}, retention_time_ms=retention) == {ErrorCode.NONE}
    assert await broker.commit({0: 6}, group="others") == {ErrorCode.NONE}
    broker = await machine.restart(broker)
    assert broker.committed() == {"clicks-0": 5}
    assert broker.committed("others") == {"clicks-0": 6}


@on_loop
async def test_offsets_of_a_deleted_topic_that_need_several_batches(tmp_path: Path) -> None:
    broker = await broker_with_offsets_of_long_groups(Machine(tmp_path))
    await broker.metadata.delete_topic("wide")
    for _ in range(20):
        await settle()
    assert broker.committed(LONG) == broker.committed("short") == {}


@on_loop
async def test_expired_offsets_that_need_several_batches(tmp_path: Path) -> None:
    broker = await broker_with_offsets_of_long_groups(Machine(tmp_path))
    await broker.pass_time(8 * DAY)
    for _ in range(20):
        await settle()
    assert broker.committed(LONG) == broker.committed("short") == {}
    assert list(broker.groups.list((), ())) == []


@on_loop
async def test_a_group_with_more_offsets_than_a_batch_of_tombstones_can_be_deleted(tmp_path: Path) -> None:
    broker = await broker_with_offsets_of_long_groups(Machine(tmp_path))
    deleting = asyncio.ensure_future(broker.groups.delete(LONG))
    for _ in range(20):
        await settle()
    assert await deleting is ErrorCode.NONE
    assert broker.committed(LONG) == {}
    assert [group.group_id for group in broker.groups.list((), ())] == ["short"]


@on_loop
async def test_a_commit_that_is_too_large_is_refused(tmp_path: Path) -> None:
    broker = await broker_with_offsets_of_long_groups(Machine(tmp_path))
    offsets = dict.fromkeys(range(MANY), 2)
    assert await broker.commit(offsets, group=LONG, topic="wide") == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert set(broker.committed(LONG).values()) == {1}
    assert await broker.commit({0: 2}, group=LONG, topic="wide") == {ErrorCode.NONE}


@on_loop
async def test_an_assignment_that_is_too_large_is_refused(tmp_path: Path) -> None:
    broker = await Machine(tmp_path).start()
    joined = await broker.join_alone()
    assert (await broker.sync(joined, assignment=bytes(2 << 20))).error is ErrorCode.UNKNOWN_SERVER_ERROR
    again = broker.join(joined.member_id)
    await broker.pass_time(0)
    assert (await broker.sync(await again)).error is ErrorCode.NONE
    assert broker.journal.topic_partition.topic == GROUP_OFFSETS_TOPIC


@pytest.mark.parametrize("protocol", [PROTOCOL_1, PROTOCOL_2])
@on_loop
async def test_a_transaction_with_as_many_partitions_as_fit_can_end(tmp_path: Path, protocol: int) -> None:
    broker = await Machine(tmp_path).start({"message.max.bytes": "400"})
    await broker.create_topic("wide", 80)
    producer = TransactionalProducer(broker, protocol=protocol)
    assert await producer.init() is ErrorCode.NONE
    for index in range(80):
        error = await producer.add(TopicPartition("wide", index))
        if error is not ErrorCode.NONE:
            break
    assert error is ErrorCode.UNKNOWN_SERVER_ERROR
    await broker.pass_time(61)
    assert producer.state == "CompleteAbort"
