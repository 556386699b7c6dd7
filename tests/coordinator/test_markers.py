"""Ends of transactions reach each partition once, and only where enough replicas have them."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from ottla.coordinator.markers import _report_result
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.records.control import EndTransactionMarker
from ottla.records.header import iter_headers
from ottla.replication.partition import Partition
from ottla.txn.commands import PROTOCOL_1, PROTOCOL_2
from ottla.wire.api.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.coordinator.transactional import TransactionalProducer, committed_values
from tests.coordinator.world import Broker
from tests.handlers.brokers import Brokers, brokers
from tests.replication.world import on_loop
from tests.server.worlds import asynchronous, until

CLICKS = TopicPartition("clicks", 0)


def count_markers(partition: Partition) -> int:
    found = partition.read_everything(0, 1 << 20)
    assert found.file is not None
    data = memoryview(found.file.read(found.size, found.position))
    return sum(header.is_control for _, header in iter_headers(data))


async def write_marker(cluster: Brokers, producer: TransactionalProducer) -> ErrorCode:
    """What a coordinator on another broker sends."""
    bumped = producer.protocol == PROTOCOL_2
    marker = WritableTxnMarker(
        producer_id=producer.producer.producer_id,
        producer_epoch=producer.producer.producer_epoch + bumped,
        transaction_result=True,
        topics=[WritableTxnMarkerTopic(name="clicks", partition_indexes=[0])],
        coordinator_epoch=0,
        transaction_version=2 if bumped else 0,
    )
    reply = await cluster.call(WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse, 1)
    return ErrorCode(reply.markers[0].topics[0].partitions[0].error_code)


@pytest.mark.parametrize("protocol", [PROTOCOL_1, PROTOCOL_2], ids=["protocol 1", "protocol 2"])
@asynchronous
async def test_one_marker_is_written_however_long_a_replica_is_away(tmp_path: Path, protocol: int) -> None:
    async with brokers(tmp_path, 1) as cluster:
        broker = cast("Broker", cluster.running[1].broker)
        await broker.transactions.locate("t")
        await cluster.start(2)
        await cluster.create("clicks", [1, 2], configs={"min.insync.replicas": "2"})
        partition = broker.replicas.leader_of(*CLICKS)
        producer = TransactionalProducer(broker, protocol=protocol)
        await until(lambda: bool(broker.transactions._shards.loaded()))
        assert await producer.init() is ErrorCode.NONE
        assert await producer.send(b"x", CLICKS) is ErrorCode.NONE
        await cluster.stop(2)
        await cluster.state_becomes(lambda state: state.isr == (1,), "clicks")
        before = producer.producer
        assert await producer.end(committed=True) is ErrorCode.NONE
        assert producer.state == "PrepareCommit"
        producer.producer = before
        for _ in range(3):
            assert await write_marker(cluster, producer) is ErrorCode.NOT_ENOUGH_REPLICAS
        assert (count_markers(partition), committed_values(partition)) == (0, [])
        await cluster.start(2)
        await until(lambda: producer.state == "CompleteCommit")
        assert (count_markers(partition), committed_values(partition)) == (1, [b"x"])


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (None, ErrorCode.NONE),
        (KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ValueError("a surprise"), ErrorCode.UNKNOWN_SERVER_ERROR),
        (asyncio.CancelledError(), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_only_an_append_without_an_error_counts_as_written(error: BaseException | None, code: ErrorCode) -> None:
    @on_loop
    async def check() -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if isinstance(error, asyncio.CancelledError):
            done.cancel()
        elif error is not None:
            done.set_exception(error)
        else:
            done.set_result(None)
        reported = []
        _report_result(lambda partition, told: reported.append((partition, told)), CLICKS, done)
        assert reported == [(CLICKS, code)]

    check()


@asynchronous
async def test_many_markers_are_written_little_by_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.coordinator.markers.MARKERS_AT_ONCE", 3)
    async with brokers(tmp_path, 1) as cluster:
        await cluster.create("clicks", *([1] for _ in range(10)))
        broker = cluster.running[1].broker
        partitions = [TopicPartition("clicks", index) for index in range(10)]
        monkeypatch.setattr(broker.markers, "_append", _fails_at(partitions[5], broker.markers._append))
        reported: dict[TopicPartition, ErrorCode] = {}
        broker.markers.write_here(EndTransactionMarker(7, 0, 0, True), 0, partitions, reported.__setitem__)
        assert list(reported) == partitions[:3]
        await until(lambda: len(reported) == 10)
        assert {partition for partition, code in reported.items() if code} == {partitions[5]}
        assert reported[partitions[5]] is ErrorCode.UNKNOWN_SERVER_ERROR
        ends = [broker.replicas.leader_of(*it).log.end_offset for it in partitions]
        assert ends == [1, 1, 1, 1, 1, 0, 1, 1, 1, 1]


def _fails_at(bad: TopicPartition, append: Callable[..., object]) -> Callable[..., object]:
    def fail(marker: EndTransactionMarker, version: int, partition: TopicPartition) -> object:
        if partition == bad:
            raise ValueError("a surprise")
        return append(marker, version, partition)

    return fail
