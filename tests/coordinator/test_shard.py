"""What a client, its neighbours and the operator see when a step of a command fails."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.coordinator.journal import PartitionJournal
from ottla.coordinator.transactions import TransactionCoordinator
from ottla.errors import ErrorCode
from ottla.groups.core import GroupCore
from ottla.model import GROUP_OFFSETS_TOPIC, TopicPartition
from ottla.replication.partition import Partition
from ottla.wire import EncodeError
from tests.coordinator.transactional import TransactionalProducer, committed_values
from tests.coordinator.world import Machine
from tests.replication.world import expect, on_loop, settle

CLICKS = TopicPartition("clicks", 0)


def fail_once(monkeypatch: pytest.MonkeyPatch, cls: type, name: str, error: Exception, *, after: bool = False) -> None:
    """Make a method raise at its next call, before or after it has done its work."""
    original: Callable[..., Any] = getattr(cls, name)

    def failing(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(cls, name, original)
        if after:
            original(*args, **kwargs)
        raise error

    monkeypatch.setattr(cls, name, failing)


@on_loop
async def test_records_that_cannot_be_encoded_cost_only_their_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broker = await Machine(tmp_path).start()
    waiting = broker.join("", group="waiting", session=10)
    await settle()
    end = broker.journal.log.end_offset
    fail_once(monkeypatch, PartitionJournal, "batch", EncodeError("a number that does not fit"))
    assert await broker.commit({0: 5}) == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert broker.journal.log.end_offset == end
    [logged] = [record for record in caplog.records if "cannot encode" in record.message]
    assert logged.exc_info is not None, "a mistake of the broker is logged with its traceback"
    assert await broker.commit({0: 6}) == {ErrorCode.NONE}
    assert not waiting.done(), "the coordinator was not loaded again"
    await broker.pass_time(3)
    assert (await waiting).error is ErrorCode.NONE


@pytest.mark.parametrize("after", [False, True])
@on_loop
async def test_after_an_append_with_an_unknown_result_the_log_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, after: bool
) -> None:
    broker = await Machine(tmp_path).start()
    await broker.commit({0: 5})
    waiting = broker.join("", group="waiting", session=10)
    await settle()
    fail_once(monkeypatch, Partition, "append", RuntimeError("who knows"), after=after)
    assert await broker.commit({0: 6}) == {ErrorCode.UNKNOWN_SERVER_ERROR}
    await settle()
    assert (await waiting).error is ErrorCode.NOT_COORDINATOR
    assert broker.committed() == {"clicks-0": 6 if after else 5}
    assert await broker.commit({0: 7}) == {ErrorCode.NONE}
    assert any(record.exc_info for record in caplog.records if "the coordinator failed" in record.message)


@on_loop
async def test_a_command_that_raises_is_answered_and_the_core_loaded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await Machine(tmp_path).start()
    joined = await broker.form_group()
    fail_once(monkeypatch, GroupCore, "commit_offsets", KeyError("a bug"), after=True)
    with expect(ErrorCode.UNKNOWN_SERVER_ERROR):
        await broker.commit({0: 5}, group="others")
    await settle()
    assert broker.heartbeat(joined) is ErrorCode.NONE, "a stable group goes on"


@on_loop
async def test_a_shard_that_keeps_crashing_is_loaded_again_after_a_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await Machine(tmp_path).start()
    for _ in range(2):
        fail_once(monkeypatch, GroupCore, "commit_offsets", KeyError("a bug"))
        with expect(ErrorCode.UNKNOWN_SERVER_ERROR):
            await broker.commit({0: 5})
        await settle()
    with expect(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
        broker.committed()
    await broker.pass_time(5)
    assert await broker.commit({0: 5}) == {ErrorCode.NONE}


@on_loop
async def test_markers_that_could_not_be_asked_for_are_written_after_the_next_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await Machine(tmp_path).start()
    producer = TransactionalProducer(broker)
    await producer.init()
    await producer.send(b"value", CLICKS)
    fail_once(monkeypatch, TransactionCoordinator, "_write_markers", ValueError("a bug"))
    assert await producer.end(committed=True) is ErrorCode.NONE
    await settle()
    assert producer.state == "CompleteCommit"
    assert committed_values(broker.replicas.leader_of(*CLICKS)) == [b"value"]


@on_loop
async def test_the_end_of_a_transaction_that_cannot_be_replayed_is_replayed_from_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await Machine(tmp_path).start()
    producer = TransactionalProducer(broker)
    await producer.init()
    assert await producer.commit_offset("readers", CLICKS, 7) is ErrorCode.NONE
    fail_once(monkeypatch, GroupCore, "replay_end_txn", ValueError("a bug"))
    assert await producer.end(committed=True) is ErrorCode.NONE
    await settle()
    await broker.pass_time(1)
    assert broker.committed() == {"clicks-0": 7}
    assert producer.state == "CompleteCommit"
    assert broker.journal.topic_partition.topic == GROUP_OFFSETS_TOPIC
