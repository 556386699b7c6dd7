"""The raw load generator: plain sockets and epoll in a separate process. All requests are encoded in advance.

It measures a window inside the load. The warm-up and requests that are open at the ends of the window are not counted.
The broker's CPU time is read at both ends of the same window.
"""

import dataclasses
import gc
import itertools
import json
import select
import subprocess
import sys
import time
from array import array
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench import wire
from bench.channel import Channel
from bench.measurement import percentile
from bench.usage import cpu_seconds_of

_ROOT = Path(__file__).parent.parent
_POLL_SECONDS = 10.0
_LONG_POLL_MS = 5000
_OFFSET_TO_PATCH = 0x0123_4567_89AB_CDEF

Kind = Literal["produce", "fetch", "fan-out", "free fan-out"]


@dataclass(frozen=True, slots=True)
class Load:
    """The requests to send. At any time `in_flight` requests are open over all connections, which take turns.

    A produce load cycles through the partitions. A fetch load also cycles through the first `offsets` offsets of each
    partition, one batch per fetch. In a fan-out every connection is a consumer that long-polls partition 0, and one
    more connection produces. It sends the next batch when all consumers have received the last one ("fan-out"), or as
    soon as the last one is acknowledged ("free fan-out").
    """

    kind: Kind
    bootstrap: str
    pid: int
    connections: int
    in_flight: int
    seconds: float
    warmup_seconds: float
    batch_bytes: int = wire.SMALL_BATCH
    partitions: int = 1
    offsets: int = 1
    acks: int = 1
    topic: str = wire.RAW_TOPIC


@dataclass(frozen=True, slots=True)
class LoadResult:
    requests: int
    """Number of replies in the window; in a fan-out, number of batches delivered to consumers."""
    seconds: float
    cpu_seconds: float
    sent_bytes: int
    received_bytes: int
    p50_ms: float
    p99_ms: float

    @property
    def requests_per_second(self) -> float:
        return self.requests / self.seconds

    @property
    def cpu_us_per_request(self) -> float:
        return self.cpu_seconds / self.requests * 1e6

    @property
    def payload_gigabytes(self) -> float:
        """Bytes in the direction that carries the data."""
        return max(self.sent_bytes, self.received_bytes) / 1e9


def run(load: Load) -> LoadResult:
    """Run the load in another process, so that its work does not disturb the benchmark's own process."""
    spec = json.dumps(dataclasses.asdict(load))
    timeout = load.seconds + load.warmup_seconds + 120
    done = subprocess.run(
        [sys.executable, "-m", "bench.generator"],
        input=spec,
        capture_output=True,
        text=True,
        timeout=timeout,
        cwd=_ROOT,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the raw generator failed: {done.stderr[-1500:]}")
    return LoadResult(**json.loads(done.stdout))


class _Window:
    """The measured window: begins after the warm-up and ends with the load."""

    def __init__(self, load: Load, channels: list[Channel]) -> None:
        self.latencies = array("q")
        self.requests = 0
        self.is_open = False
        self._pid = load.pid
        self._channels = channels
        self._opens_at = time.perf_counter_ns() + int(load.warmup_seconds * 1e9)
        self._length = int(load.seconds * 1e9)
        self._opened, self._cpu, self._bytes = 0, 0.0, (0, 0)

    def passed(self, now: int) -> bool:
        """Whether the load is over. Opens the window after the warm-up and resets all counters then."""
        if self.is_open:
            return now >= self._opened + self._length
        if now >= self._opens_at:
            self.is_open = True
            self.latencies = array("q")
            self.requests = 0
            self._opened, self._cpu, self._bytes = time.perf_counter_ns(), cpu_seconds_of(self._pid), self._traffic()
        return False

    def result(self) -> LoadResult:
        seconds = (time.perf_counter_ns() - self._opened) / 1e9
        cpu_seconds = cpu_seconds_of(self._pid) - self._cpu
        sent, received = (now - then for now, then in zip(self._traffic(), self._bytes, strict=True))
        ordered = sorted(self.latencies)
        if not ordered:
            raise RuntimeError("no request was answered while the load was measured")
        p50, p99 = percentile(ordered, 0.5) / 1e6, percentile(ordered, 0.99) / 1e6
        return LoadResult(self.requests, seconds, cpu_seconds, sent, received, p50, p99)

    def _traffic(self) -> tuple[int, int]:
        return sum(c.sent_bytes for c in self._channels), sum(c.received_bytes for c in self._channels)


def run_requests(load: Load) -> LoadResult:
    """After each reply, the connection that has waited longest sends the next request."""
    poller = select.epoll()
    frames = itertools.cycle(_frames(load))
    fetches, least_bytes = load.kind == "fetch", load.batch_bytes if load.kind == "fetch" else 0
    channels = [
        Channel(load.bootstrap, poller, load.topic, fetches=fetches, least_bytes=least_bytes)
        for _ in range(load.connections)
    ]
    by_fd = {channel.socket.fileno(): channel for channel in channels}
    turns = deque(channels)
    window = _Window(load, channels)
    now = time.perf_counter_ns()
    for _ in range(load.in_flight):
        turns[0].send(next(frames), now)
        turns.rotate(-1)
    idle = deque(itertools.islice(turns, max(0, load.connections - load.in_flight)))
    while not window.passed(now):
        for fd, events in _poll(poller):
            channel = by_fd[fd]
            if events & select.EPOLLOUT:
                channel.flush()
            if not events & ~select.EPOLLOUT:
                continue
            completed = channel.receive()
            now = time.perf_counter_ns()
            window.requests += completed
            for _ in range(completed):
                window.latencies.append(now - channel.sent_at.popleft())
                idle.append(channel)
                idle.popleft().send(next(frames), now)
    return _finish(window, channels)


def _frames(load: Load) -> list[bytes]:
    if load.kind == "produce":
        batch = wire.batch_of(load.batch_bytes)
        return [wire.produce_frame(load.topic, p, batch, load.acks) for p in range(load.partitions)]
    return [
        wire.fetch_frame(load.topic, partition, offset, max_bytes=load.batch_bytes, max_wait_ms=_LONG_POLL_MS)
        for offset in range(load.offsets)
        for partition in range(load.partitions)
    ]


class _Consumer:
    """A connection that always has an open fetch at the end of the partition."""

    __slots__ = ("_frame", "_offset_at", "channel", "offset")

    def __init__(self, channel: Channel, frame: bytes, offset: int) -> None:
        self.channel = channel
        self.offset = offset
        self._frame = bytearray(frame)
        self._offset_at = frame.index(_OFFSET_TO_PATCH.to_bytes(8, "big"))

    def poll(self, now: int) -> None:
        self._frame[self._offset_at : self._offset_at + 8] = self.offset.to_bytes(8, "big")
        self.channel.send(self._frame, now)

    def advance(self, now: int) -> int:
        """Handle a reply and send the next fetch. Returns the number of new batches."""
        self.channel.sent_at.popleft()
        gained = self.channel.high_watermark - self.offset
        self.offset += gained
        self.poll(now)
        return gained


def run_fan_out(load: Load) -> LoadResult:
    """Latencies are those of whole rounds if the producer waits for all consumers, else those of acknowledgements."""
    poller = select.epoll()
    in_rounds = load.kind == "fan-out"
    produce_frame = wire.produce_frame(load.topic, 0, wire.batch_of(load.batch_bytes), load.acks)
    fetch_frame = wire.fetch_frame(load.topic, 0, _OFFSET_TO_PATCH, max_bytes=1 << 20, max_wait_ms=_LONG_POLL_MS)
    producer = Channel(load.bootstrap, poller, load.topic, fetches=False)
    channels = [Channel(load.bootstrap, poller, load.topic, fetches=True) for _ in range(load.connections)]
    [end] = wire.end_offsets(load.bootstrap, load.topic)
    consumers = {channel.socket.fileno(): _Consumer(channel, fetch_frame, end) for channel in channels}
    window = _Window(load, [producer, *channels])
    began = now = time.perf_counter_ns()
    for consumer in consumers.values():
        consumer.poll(now)
    producer.send(produce_frame, now)
    undelivered, acknowledged = load.connections, False
    while not window.passed(now):
        for fd, events in _poll(poller):
            channel = producer if fd == producer.socket.fileno() else consumers[fd].channel
            if events & select.EPOLLOUT:
                channel.flush()
            if not events & ~select.EPOLLOUT or not channel.receive():
                continue
            now = time.perf_counter_ns()
            if channel is producer:
                producer.sent_at.popleft()
                acknowledged = True
            else:
                gained = consumers[fd].advance(now)
                window.requests += gained
                undelivered -= gained
            if acknowledged and (undelivered == 0 or not in_rounds):
                window.latencies.append(now - began)
                undelivered, acknowledged, began = load.connections, False, now
                producer.send(produce_frame, now)
    return _finish(window, [producer, *channels])


def _poll(poller: select.epoll) -> list[tuple[int, int]]:
    events = poller.poll(_POLL_SECONDS)
    if not events:
        raise TimeoutError(f"no reply in {_POLL_SECONDS:.0f} s")
    return events


def _finish(window: _Window, channels: list[Channel]) -> LoadResult:
    result = window.result()
    for channel in channels:
        channel.close()
    return result


def main() -> None:
    load = Load(**json.load(sys.stdin))
    gc.disable()
    result = run_fan_out(load) if "fan-out" in load.kind else run_requests(load)
    json.dump(dataclasses.asdict(result), sys.stdout)


if __name__ == "__main__":
    main()
