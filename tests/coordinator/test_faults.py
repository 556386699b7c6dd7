"""Whatever raises while a command is performed: every request is answered, the coordinators go on serving, and their
state is what a replay of their logs gives."""

import asyncio
import random
import struct
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ottla.coordinator.journal import PartitionJournal
from ottla.coordinator.transactions import TransactionCoordinator
from ottla.errors import ErrorCode, KafkaError
from ottla.groups.core import GroupCore
from ottla.groups.membership import ClassicMembership
from ottla.groups.rebalance import Rebalance
from ottla.groups.results import DescribedGroup, JoinResult
from ottla.model import INTERNAL_TOPICS, ZERO_TOPIC_ID, TopicPartition
from ottla.replication.partition import Partition
from ottla.txn.core import TxnCore
from ottla.txn.results import DescribedTransaction
from ottla.wire import EncodeError
from tests.coordinator.transactional import TransactionalProducer
from tests.coordinator.world import Broker, Machine
from tests.replication.world import on_loop, settle

POINTS: list[tuple[type, str]] = [
    (PartitionJournal, "batch"),
    (Partition, "append"),
    (Partition, "append_marker"),
    (GroupCore, "replay"),
    (GroupCore, "replay_end_txn"),
    (GroupCore, "append_failed"),
    (GroupCore, "commit_offsets"),
    (GroupCore, "timer_fired"),
    (GroupCore, "expire_offsets"),
    (GroupCore, "unload"),
    (ClassicMembership, "join"),
    (ClassicMembership, "sync"),
    (ClassicMembership, "leave"),
    (Rebalance, "prepare"),
    (TxnCore, "replay"),
    (TxnCore, "append_failed"),
    (TxnCore, "markers_written"),
    (TxnCore, "timer_fired"),
    (TransactionCoordinator, "_write_markers"),
]
REFUSING = {"batch", "append", "append_marker"}
"""These may raise KafkaError, which says that nothing was appended."""
GROUPS = ("readers", "writers")
IDS = ("a", "b")


class Faults:
    """Makes one of the points raise, once, before or after it has done its work."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, source: random.Random) -> None:
        self._source = source
        self._armed: tuple[str, bool, Exception] | None = None
        self.raised = 0
        for cls, name in POINTS:
            monkeypatch.setattr(cls, name, self._wrapped(f"{cls.__name__}.{name}", getattr(cls, name)))

    def arm(self) -> None:
        cls, name = self._source.choice(POINTS)
        before = self._source.random() < 0.5
        error = self._source.choice([ValueError, KeyError, EncodeError, struct.error, OSError, AssertionError])("fault")
        if name in REFUSING and before and self._source.random() < 0.5:
            error = KafkaError(self._source.choice([ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.MESSAGE_TOO_LARGE]))
        self._armed = f"{cls.__name__}.{name}", before, error

    def disarm(self) -> None:
        self._armed = None

    def _wrapped(self, point: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(this: Any, *args: Any, **kwargs: Any) -> Any:
            if isinstance(this, Partition) and this.topic_partition.topic not in INTERNAL_TOPICS:
                return original(this, *args, **kwargs)
            self._check(point, before=True)
            result = original(this, *args, **kwargs)
            self._check(point, before=False)
            return result

        return call

    def _check(self, point: str, *, before: bool) -> None:
        if self._armed is not None and self._armed[:2] == (point, before):
            error, self._armed = self._armed[2], None
            self.raised += 1
            raise error


class Clients:
    """Does one random thing after another, and expects an answer to each."""

    def __init__(self, broker: Broker, source: random.Random) -> None:
        self.broker = broker
        self._source = source
        self._joined: dict[str, list[JoinResult]] = {group: [] for group in GROUPS}
        self._joining: list[asyncio.Future[None]] = []
        self._producers = {name: TransactionalProducer(broker, name) for name in IDS}

    async def step(self) -> None:
        actions = [self._commit, self._commit, self._join, self._sync, self._leave, self._delete, self._heartbeat]
        actions += [self._begin, self._send, self._commit_in_transaction, self._end, self._wait]
        await self._answered(self._source.choice(actions)())

    async def finish(self) -> None:
        """No request may wait for longer than the group lets a new member wait."""
        for _ in range(40):
            await self.broker.pass_time(10)
        assert all(joining.done() for joining in self._joining), "a request that waits for the group was never answered"

    async def _answered(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.ensure_future(work)
        for _ in range(60):
            await settle()
            if task.done():
                break
            await self.broker.pass_time(0.05)
        assert task.done(), "a request was never answered"
        error = task.exception()
        assert error is None or isinstance(error, KafkaError), repr(error)

    def _group(self) -> str:
        return self._source.choice(GROUPS)

    async def _commit(self) -> object:
        retention = self._source.choice([-1, -1, 1, 2**63 - 1])
        offsets = {self._source.randrange(3): self._source.randrange(1000)}
        return await self.broker.commit(offsets, self._group(), retention_time_ms=retention)

    async def _join(self) -> None:
        group = self._group()

        async def join() -> None:
            try:
                joined = await self.broker.join(group=group)
            except KafkaError:
                return
            if joined.error is ErrorCode.NONE:
                self._joined[group].append(joined)

        self._joining.append(asyncio.ensure_future(join()))

    async def _sync(self) -> None:
        group = self._group()

        async def sync(joined: JoinResult) -> None:
            with suppress(KafkaError):
                await self.broker.sync(joined, group)

        self._joining += [asyncio.ensure_future(sync(joined)) for joined in self._joined[group]]

    async def _leave(self) -> object:
        group = self._group()
        return await self.broker.leave(self._joined[group].pop(0), group) if self._joined[group] else None

    async def _heartbeat(self) -> object:
        group = self._group()
        return [self.broker.heartbeat(joined, group) for joined in self._joined[group]]

    async def _delete(self) -> object:
        return await self.broker.groups.delete(self._group())

    async def _begin(self) -> object:
        return await self._producer().init()

    async def _send(self) -> object:
        return await self._producer().send(b"value", TopicPartition("clicks", self._source.randrange(3)))

    async def _commit_in_transaction(self) -> object:
        partition = TopicPartition("clicks", self._source.randrange(3))
        return await self._producer().commit_offset(self._group(), partition, self._source.randrange(1000))

    async def _end(self) -> object:
        return await self._producer().end(committed=self._source.random() < 0.5)

    def _producer(self) -> TransactionalProducer:
        return self._producers[self._source.choice(IDS)]

    async def _wait(self) -> None:
        await self.broker.pass_time(self._source.choice([1, 6, 700]))


def group_state(broker: Broker, group: str, stable: bool) -> tuple[object, ...]:
    offsets = broker.groups.committed(group)
    described: DescribedGroup | None = broker.groups.describe(group) if stable else None
    unstable = [offsets.is_unstable("clicks", index) for index in range(3)]
    # The format of offsets with a time of expiry has no topic id.
    committed = sorted(it._replace(topic_id=ZERO_TOPIC_ID) for it in offsets.all())
    return committed, unstable, described


def transactions(broker: Broker) -> list[DescribedTransaction]:
    return [broker.transactions.describe(name) for name in IDS]


SETTINGS = {"offsets.retention.minutes": "30", "offsets.retention.check.interval.ms": "60000"}


async def trouble(machine: Machine, monkeypatch: pytest.MonkeyPatch, seed: int) -> tuple[Broker, Clients]:
    """A broker after many commands, some of which met a fault."""
    source = random.Random(seed)
    broker = await machine.start(SETTINGS)
    faults = Faults(monkeypatch, source)
    clients = Clients(broker, source)
    for _ in range(120):
        if source.random() < 0.8:
            faults.arm()
        await clients.step()
    faults.disarm()
    assert faults.raised > 0
    await broker.pass_time(6)
    assert await broker.commit({0: 77}, "another group") == {ErrorCode.NONE}
    assert await TransactionalProducer(broker, "c").init() is ErrorCode.NONE
    return broker, clients


@pytest.mark.parametrize("seed", range(10))
@on_loop
async def test_the_state_is_what_a_replay_of_the_log_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    machine = Machine(tmp_path)
    broker, _ = await trouble(machine, monkeypatch, seed)
    await broker.pass_time(1)
    stable = [group for group in GROUPS if broker.groups.describe(group).state == "Stable"]
    living = [group_state(broker, group, group in stable) for group in GROUPS]
    open_transactions = transactions(broker)
    broker = await machine.restart(broker, SETTINGS, clean=False)
    assert [group_state(broker, group, group in stable) for group in GROUPS] == living
    assert transactions(broker) == open_transactions


@pytest.mark.parametrize("seed", range(10, 16))
@on_loop
async def test_every_request_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    _, clients = await trouble(Machine(tmp_path), monkeypatch, seed)
    await clients.finish()
