"""Transactions over real partitions: what was promised survives, what was not leaves no trace."""

import asyncio
from pathlib import Path

import pytest

from ottla.errors import ErrorCode
from ottla.model import TRANSACTION_STATE_TOPIC, TopicPartition
from ottla.txn.commands import PROTOCOL_1, PROTOCOL_2
from ottla.txn.listing import TransactionFilter
from tests.coordinator.transactional import TransactionalProducer, committed_values
from tests.coordinator.world import Broker, Machine
from tests.replication.world import expect, on_loop, settle

CLICKS = [TopicPartition("clicks", index) for index in range(3)]
SYNC_EACH = {"log.flush.interval.messages": "1"}

both_protocols = pytest.mark.parametrize("protocol", [PROTOCOL_1, PROTOCOL_2], ids=["protocol 1", "protocol 2"])


async def new_producer(broker: Broker, name: str = "t", protocol: int = PROTOCOL_2) -> TransactionalProducer:
    producer = TransactionalProducer(broker, name, protocol=protocol)
    assert await producer.init() is ErrorCode.NONE
    return producer


def values(broker: Broker, partition: TopicPartition = CLICKS[0]) -> list[bytes]:
    return committed_values(broker.replicas.leader_of(*partition))


@on_loop
async def test_the_first_producer_creates_the_topic_of_transactions(tmp_path: Path) -> None:
    broker = await Machine(tmp_path).boot()
    with expect(ErrorCode.COORDINATOR_NOT_AVAILABLE):
        broker.transactions.describe("t")
    await broker.transactions.locate("t")
    with expect(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
        broker.transactions.describe("t")
    await settle()
    assert broker.transactions.describe("t").error is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    overrides = broker.metadata.image.topic_config(TRANSACTION_STATE_TOPIC)
    assert (overrides["cleanup.policy"], overrides["compression.type"]) == ("compact", "uncompressed")


@both_protocols
@on_loop
async def test_records_and_offsets_count_together(tmp_path: Path, protocol: int) -> None:
    broker = await Machine(tmp_path).start()
    producer = await new_producer(broker, protocol=protocol)
    for committed in (True, False):
        for partition in CLICKS[:2]:
            assert await producer.send(b"%d" % committed, partition) is ErrorCode.NONE
        assert await producer.commit_offset("readers", CLICKS[2], 5 + committed) is ErrorCode.NONE
        before = (values(broker), broker.committed())
        assert await producer.end(committed=committed) is ErrorCode.NONE
        assert producer.state == ("CompleteCommit" if committed else "CompleteAbort")
        after = (values(broker), values(broker, CLICKS[1]), broker.committed())
        assert before == ([], {}) if committed else before == (after[0], after[2])
        assert after == ([b"1"], [b"1"], {"clicks-2": 6})


@on_loop
async def test_an_offset_is_unstable_until_its_transaction_ends(tmp_path: Path) -> None:
    broker = await Machine(tmp_path).start()
    await broker.commit({0: 1})
    producer = await new_producer(broker)
    await producer.commit_offset("readers", CLICKS[0], 2)
    offsets = broker.groups.committed("readers")
    assert (offsets.is_unstable("clicks", 0), offsets.is_unstable("clicks", 1)) == (True, False)
    assert broker.committed() == {"clicks-0": 1}
    await producer.end(committed=True)
    assert not offsets.is_unstable("clicks", 0)
    assert broker.committed() == {"clicks-0": 2}


@both_protocols
@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
@on_loop
async def test_an_open_transaction_goes_on_after_a_restart(tmp_path: Path, clean: bool, protocol: int) -> None:
    machine = Machine(tmp_path)
    producer = await new_producer(await machine.start(), protocol=protocol)
    await producer.send(b"before", CLICKS[0])
    await producer.commit_offset("readers", CLICKS[1], 7)
    producer.broker = broker = await machine.restart(producer.broker, clean=clean)
    assert (values(broker), broker.committed()) == ([], {})
    assert await producer.send(b"after", CLICKS[0]) is ErrorCode.NONE
    assert await producer.end(committed=True) is ErrorCode.NONE
    assert values(broker) == [b"before", b"after"]
    assert broker.committed() == {"clicks-1": 7}


@on_loop
async def test_what_is_decided_is_finished_after_a_crash(tmp_path: Path) -> None:
    """The markers of one partition were not written, because its disk was full; then the broker is killed."""
    machine = Machine(tmp_path)
    producer = await new_producer(await machine.start())
    for partition in CLICKS:
        await producer.send(b"x", partition)
    await producer.commit_offset("readers", CLICKS[0], 3)
    machine.disk.break_("write", "clicks-1/")
    machine.disk.break_("write", "__consumer_offsets-0/")
    assert await producer.end(committed=True) is ErrorCode.NONE
    assert producer.state == "PrepareCommit"
    described = producer.broker.transactions.describe("t")
    assert described.partitions == (("__consumer_offsets", 0), CLICKS[1])
    assert values(producer.broker, CLICKS[0]) == [b"x"]
    await producer.broker.stop(clean=False)
    machine.disk.repair()
    producer.broker = broker = await machine.start()
    await broker.pass_time(1)  # The groups may not have been there yet when the markers were first tried.
    assert producer.state == "CompleteCommit"
    assert [values(broker, partition) for partition in CLICKS] == [[b"x"]] * 3
    assert broker.committed() == {"clicks-0": 3}


@on_loop
async def test_markers_that_could_not_be_written_are_tried_again(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    producer = await new_producer(await machine.start())
    await producer.send(b"x", CLICKS[0])
    machine.disk.break_("write", "clicks-0/")
    assert await producer.end(committed=True) is ErrorCode.NONE
    assert await producer.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    await producer.broker.pass_time(1)
    assert producer.state == "PrepareCommit"
    machine.disk.repair()
    await producer.broker.pass_time(1)
    assert producer.state == "CompleteCommit"
    assert values(producer.broker) == [b"x"]


@on_loop
async def test_a_deleted_topic_does_not_keep_a_transaction_from_its_end(tmp_path: Path) -> None:
    broker = await Machine(tmp_path).start()
    await broker.create_topic("gone")
    producer = await new_producer(broker)
    await producer.send(b"x", TopicPartition("gone", 0))
    await producer.send(b"x", CLICKS[0])
    await broker.metadata.delete_topic("gone")
    assert await producer.end(committed=True) is ErrorCode.NONE
    assert producer.state == "CompleteCommit"
    assert values(broker) == [b"x"]


@on_loop
async def test_a_transaction_that_takes_too_long_is_aborted(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    producer = await new_producer(await machine.start())
    await producer.send(b"late", CLICKS[0])
    producer.broker = broker = await machine.restart(producer.broker, clean=False)
    await broker.pass_time(59)
    assert producer.state == "Ongoing"
    await broker.pass_time(2)
    assert producer.state == "CompleteAbort"
    assert values(broker) == []
    with expect(ErrorCode.INVALID_PRODUCER_EPOCH):
        await producer.send(b"zombie", CLICKS[0])
    assert await producer.end(committed=True) is ErrorCode.INVALID_TXN_STATE, "it was aborted"


@on_loop
async def test_a_successor_fences_its_predecessor(tmp_path: Path) -> None:
    broker = await Machine(tmp_path).start()
    old = await new_producer(broker)
    await old.send(b"old", CLICKS[0])
    new = TransactionalProducer(broker)
    assert await new.init() is ErrorCode.CONCURRENT_TRANSACTIONS, "first the old transaction is aborted"
    assert await new.init() is ErrorCode.NONE
    assert await new.send(b"new", CLICKS[0]) is ErrorCode.NONE
    with expect(ErrorCode.INVALID_PRODUCER_EPOCH):
        await old.send(b"zombie", CLICKS[0])
    with expect(ErrorCode.INVALID_PRODUCER_EPOCH):
        await old.commit_offset("readers", CLICKS[1], 1) and await old.send(b"zombie", CLICKS[0])
    assert await old.end(committed=True) is ErrorCode.PRODUCER_FENCED
    assert await new.end(committed=True) is ErrorCode.NONE
    assert values(broker) == [b"new"]


@on_loop
async def test_answers_and_markers_wait_for_the_disk(tmp_path: Path) -> None:
    """With a sync before each acknowledgement, nothing that rests on a decision happens before it is on disk."""
    machine = Machine(tmp_path)
    broker = await machine.start(SYNC_EACH)
    producer = await new_producer(broker)
    await producer.send(b"x", CLICKS[0])
    broker.background.held = True
    task = asyncio.ensure_future(producer.end(committed=True))
    await settle()
    partition = broker.replicas.leader_of(*CLICKS[0])
    assert not task.done()
    assert partition.log.end_offset == 1, "the marker must not be there before the decision is safe"
    await broker.background.finish_one()
    assert task.done()
    assert (partition.log.end_offset, partition.last_stable_offset) == (2, 0)
    await broker.background.finish_all()
    assert partition.last_stable_offset == 2
    assert producer.state == "CompleteCommit"


@on_loop
async def test_a_decision_that_may_be_lost_is_forgotten(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine(tmp_path)
    broker = await machine.start(SYNC_EACH)
    producer = await new_producer(broker)
    await producer.send(b"x", CLICKS[0])
    machine.disk.break_("sync", TRANSACTION_STATE_TOPIC)
    assert await producer.end(committed=True) is ErrorCode.NOT_COORDINATOR
    await settle()
    assert broker.replicas.leader_of(*CLICKS[0]).log.end_offset == 1, "no marker for what nobody can be sure of"
    with expect(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
        await producer.end(committed=True)
    assert "fsync failed" in caplog.text
    machine.disk.repair()
    producer.broker = broker = await machine.restart(broker, SYNC_EACH, clean=False)
    assert await producer.end(committed=True) is ErrorCode.NONE
    assert values(broker) == [b"x"]


@on_loop
async def test_ids_that_are_not_used_expire(tmp_path: Path) -> None:
    week = 7 * 24 * 3600.0
    machine = Machine(tmp_path)
    broker = await machine.start()
    idle = await new_producer(broker, "idle")
    await broker.pass_time(week / 2)
    await new_producer(broker, "busy")
    await broker.pass_time(week / 2 + 3601)
    await broker.pass_time(3601)
    assert [it.transactional_id for it in broker.transactions.list(TransactionFilter()) if it is not None] == ["busy"]
    assert await idle.end(committed=True) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    broker = await machine.restart(broker)
    assert [it.transactional_id for it in broker.transactions.list(TransactionFilter()) if it is not None] == ["busy"]


@on_loop
async def test_the_next_transaction_waits_for_the_end_of_the_last(tmp_path: Path) -> None:
    """KIP-890: a client of protocol 2 may begin at once; the broker waits a little for the markers on its behalf."""
    machine = Machine(tmp_path)
    producer = await new_producer(await machine.start())
    await producer.send(b"1", CLICKS[0])
    machine.disk.break_("write", "clicks-0/")
    await producer.end(committed=True)
    sending = asyncio.ensure_future(producer.send(b"2", CLICKS[1]))
    await producer.broker.pass_time(0.02)
    assert not sending.done()
    machine.disk.repair()
    for _ in range(10):
        await producer.broker.pass_time(0.02)
    assert await sending is ErrorCode.NONE
    assert values(producer.broker) == [b"1"]
