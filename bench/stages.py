"""`python -m bench.stages`: the cost of the stages of one Produce and one Fetch, from the innermost call outwards.

Each line is a call that contains the calls of the lines above. It is timed alone in this process, once in a tight loop
and once with cold caches, as when clients use the processor's caches too. The last lines are the CPU time of a broker
under load, from the kernel's accounting. `docs/performance.md` explains the numbers.
"""

import asyncio
import itertools
import statistics
import struct
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from crc32c import crc32c
from rich.console import Console
from rich.table import Table

from bench import brokers, generator, wire
from bench.case import new_topic
from bench.generator import Kind, Load
from bench.measurement import OTTLA
from bench.usage import split_cpu_seconds_of
from ottla.config.broker import BrokerConfig
from ottla.controller.controller import Controller
from ottla.env.network import Address, Part
from ottla.handlers.context import Broker
from ottla.handlers.session import Session
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.records.header import read_header
from ottla.records.validate import validate_batch
from ottla.replication.intake import prepare
from ottla.server.broker import BrokerServer
from ottla.server.buffers import Buffers
from ottla.server.connection import Busy, ClientConnection
from ottla.server.dispatch import Dispatcher
from ottla.server.event_loop import new_event_loop
from ottla.server.roles import Roles
from ottla.server.watchdog import Watchdog
from ottla.store.interface import Store

_CALLS = 5_000
_ROUNDS = 7
_COLD_CALLS = 300
_OTHER_MEMORY = bytearray(8 << 20)
"""Larger than a core's own caches."""
_CACHE_LINE = 64
_OFFSETS = 8
"""Number of offsets that are fetched in turn under load."""
_TOPIC = wire.RAW_TOPIC
_PEER = Address("127.0.0.1", 1)


class Row(NamedTuple):
    what: str
    microseconds: float
    cold: float | None = None


class _ObservedServer(BrokerServer):
    broker: Broker

    def _assemble(
        self, cluster_id: str, store: Store, metadata: ClusterMetadata, controller: Controller
    ) -> tuple[Broker, Roles]:
        self.broker, roles = super()._assemble(cluster_id, store, metadata, controller)
        return self.broker, roles


class _NoSocket:
    """A connection that accepts every reply at once and discards it."""

    local = peer = _PEER
    unsent = 0

    def send(self, parts: Sequence[Part]) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self) -> None:
        pass


def _row(what: str, call: Callable[[], object]) -> Row:
    """The median over several rounds, without the cost of the loop, and the median of single calls with cold caches."""
    warm = statistics.median(_round(call) - _round(_nothing) for _ in range(_ROUNDS))
    cold = statistics.median(_cold(call) for _ in range(_COLD_CALLS))
    return Row(what, warm, cold - statistics.median(_cold(_nothing) for _ in range(_COLD_CALLS)))


def _round(call: Callable[[], object]) -> float:
    began = time.process_time()
    for _ in range(_CALLS):
        call()
    return (time.process_time() - began) / _CALLS * 1e6


def _cold(call: Callable[[], object]) -> float:
    _OTHER_MEMORY[::_CACHE_LINE] = bytes(len(_OTHER_MEMORY) // _CACHE_LINE)
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1e6


def _nothing() -> None:
    pass


class _Requests:
    """One request in a buffer, like a request that a client sends repeatedly."""

    def __init__(self, broker: Broker, frame: bytes) -> None:
        self._sent = frame
        watchdog = Watchdog()
        self.frame = memoryview(bytearray(frame[4:]))
        self._dispatcher = Dispatcher(broker, Session("PLAINTEXT", _PEER, _PEER), watchdog)
        self._connection = ClientConnection(
            broker, _NoSocket(), "PLAINTEXT", Buffers(), Busy(), watchdog, lambda _: None
        )

    def refresh(self) -> memoryview:
        """Restore the batch as the client sent it, because the broker writes into the buffer."""
        self.frame[:] = self._sent[4:]
        return self.frame

    def serve(self) -> object:
        return self._dispatcher.serve(self.refresh(), 0.0)

    def receive(self) -> None:
        size = len(self._sent)
        self._connection.buffer()[:size] = self._sent
        self._connection.received(size)


def _produce_stages(broker: Broker) -> list[Row]:
    batch = bytes(wire.batch_of(wire.SMALL_BATCH))
    requests = _Requests(broker, wire.produce_frame(_TOPIC, 0, batch, 1))
    requests.serve()
    partition = broker.replicas.leader_of(_TOPIC, 0)
    records = memoryview(bytearray(batch))
    header, clean = read_header(batch), struct.Struct(">q").pack_into
    file = partition.log.read(0, 1 << 20, partition.high_watermark).file
    assert file is not None

    def append() -> None:
        clean(records, 0, 0)
        partition.append(records)

    return [
        _row("crc32c of the batch", lambda: crc32c(records[21:])),
        _row("records.validate_batch", lambda: validate_batch(memoryview(batch))),
        _row("replication.intake.prepare", lambda: prepare(memoryview(batch), partition.config, _now())),
        _row("one pwrite", lambda: file.write(records, 0)),
        _row("log.append", lambda: partition.log.append(records, header, 0)),
        _row("replication.Partition.append, with prepare", append),
        _row("server.dispatch, with handlers.produce", requests.serve),
        _row("server.connection, all but the socket", requests.receive),
    ]


def _fetch_stages(broker: Broker) -> list[Row]:
    """Fetch two offsets in turn, because the broker remembers the last read position."""
    frames = [wire.fetch_frame(_TOPIC, 0, offset, max_bytes=wire.SMALL_BATCH, max_wait_ms=0) for offset in (0, 1)]
    each = [_Requests(broker, frame) for frame in frames]
    partition, offset, turn = broker.replicas.leader_of(_TOPIC, 0), itertools.cycle((0, 1)), itertools.cycle(each)

    return [
        _row("log.read", lambda: partition.log.read(next(offset), wire.SMALL_BATCH, partition.high_watermark)),
        _row("server.dispatch, with handlers.fetch", lambda: next(turn).serve()),
        _row("server.connection, all but the socket", lambda: next(turn).receive()),
    ]


def _now() -> int:
    return time.time_ns() // 1_000_000


async def _in_process(directory: str) -> tuple[list[Row], list[Row]]:
    server = _ObservedServer(BrokerConfig({"log.dirs": directory, "listeners": "PLAINTEXT://127.0.0.1:0"}))
    await server.start()
    try:
        await server.broker.metadata.create_topic(_TOPIC)
        return _produce_stages(server.broker), _fetch_stages(server.broker)
    finally:
        await server.stop()


def _under_load(kind: Kind) -> list[Row]:
    """16 connections, one small batch each."""
    with brokers.start(OTTLA) as broker, new_topic(broker) as topic:
        pid = broker.process.pid
        load = Load("produce", broker.bootstrap, pid, 16, 16, 4.0, 1.0, topic=topic)
        generator.run(load)
        user, system = split_cpu_seconds_of(pid)
        result = generator.run(Load(kind, broker.bootstrap, pid, 16, 16, 4.0, 0.0, offsets=_OFFSETS, topic=topic))
        user, system = (now - then for now, then in zip(split_cpu_seconds_of(pid), (user, system), strict=True))
    return [
        Row("under load: the broker's own time", user / result.requests * 1e6),
        Row("under load: the kernel's time for it", system / result.requests * 1e6),
    ]


def main() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="ottla-bench-") as directory,
        asyncio.Runner(loop_factory=new_event_loop) as runner,
    ):
        produce, fetch = runner.run(_in_process(str(Path(directory) / "data")))
    for title, stages in (
        (f"Produce, one batch of {wire.SMALL_BATCH} B", [*produce, *_under_load("produce")]),
        (f"Fetch, one batch of {wire.SMALL_BATCH} B", [*fetch, *_under_load("fetch")]),
    ):
        table = Table("what", "us", "us, caches cold", title=title)
        for what, microseconds, cold in stages:
            table.add_row(what, f"{microseconds:.1f}", "" if cold is None else f"{cold:.1f}")
        Console().print(table)


if __name__ == "__main__":
    main()
