"""A broker in the test's own event loop, on a network and a clock that the test controls."""

import asyncio
import contextlib
import functools
import heapq
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec

from ottla.config.broker import BrokerConfig
from ottla.controller.controller import Controller
from ottla.env.clock import Timer
from ottla.env.network import Accept, Address, FileSlice, Listener, Part, Receiver
from ottla.handlers.context import Broker
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.server.broker import BrokerServer, World
from ottla.server.roles import Roles
from ottla.store.interface import Store
from ottla.wire import codec
from ottla.wire.framing import parse_response_header
from ottla.wire.schema import Request
from tests.server.wire_client import R, encode_request

TIMEOUT = 60.0
DIALLED = Address("127.0.0.1", 9092)

P = ParamSpec("P")


def asynchronous(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """Run an async test function on its own event loop."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def main() -> None:
            await test(*args, **kwargs)

        asyncio.run(main())

    return run


async def until(condition: Callable[[], bool]) -> None:
    """Let the broker work until the condition holds."""
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline, "this never became true"
        await asyncio.sleep(0.001)


async def settle() -> None:
    """Run everything that is ready on the event loop, and everything that becomes ready by it."""
    for _ in range(20):
        await asyncio.sleep(0)


class MemoryConnection:
    """A connection without a socket. The peer takes sent data at once, unless the test makes it slow."""

    def __init__(self, peer: Address, local: Address) -> None:
        self.local = local
        self.peer = peer
        self.taken = bytearray()
        self.is_slow = False
        self.is_open = True
        self.is_read = True
        self.receiver: Receiver | None = None
        self._unsent: list[Part] = []
        self._unread = b""
        self._requests = 0

    def send(self, parts: Sequence[Part]) -> None:
        if self.is_open:
            self._unsent += parts
            if not self.is_slow:
                self._take()

    @property
    def unsent(self) -> int:
        return sum(len(part) for part in self._unsent)

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        if not self.is_read:
            self.is_read = True
            asyncio.get_running_loop().call_soon(self._deliver)

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            self._unsent.clear()
            assert self.receiver is not None
            self.receiver.closed()

    def push(self, data: bytes) -> None:
        """Bytes from the peer. Bytes that the broker does not read now wait, as in the kernel."""
        self._unread += data
        self._deliver()

    def request(self, request: Request, version: int) -> None:
        self.push(encode_request(request, version, self._requests))
        self._requests += 1

    def take_all(self) -> None:
        """The peer reads all sent data."""
        self._take()
        assert self.receiver is not None
        self.receiver.drained()

    def frames(self) -> list[memoryview]:
        """The complete replies so far."""
        found, position = [], 0
        while position + 4 <= len(self.taken):
            end = position + 4 + int.from_bytes(self.taken[position : position + 4], signed=True)
            found.append(memoryview(bytes(self.taken[position + 4 : end])))
            position = end
        assert position == len(self.taken)
        return found

    def correlation_ids(self) -> list[int]:
        return [int.from_bytes(frame[:4]) for frame in self.frames()]

    def reply(self, index: int, response: type[R], version: int) -> R:
        frame = self.frames()[index]
        header = parse_response_header(response.api_key, version, frame)
        return codec.decode(response, frame, version, header.body_position)[0]

    def _take(self) -> None:
        for part in self._unsent:
            self.taken += part.read() if isinstance(part, FileSlice) else part
        self._unsent.clear()

    def _deliver(self) -> None:
        while self._unread and self.is_read and self.is_open:
            assert self.receiver is not None
            buffer = self.receiver.buffer()
            count = min(len(buffer), len(self._unread))
            buffer[:count] = self._unread[:count]
            self._unread = self._unread[count:]
            self.receiver.received(count)


class MemoryNetwork:
    """Listeners by port, and connections to them from any host."""

    def __init__(self) -> None:
        self._accept: dict[int, Accept] = {}
        self._ports = itertools.count(50_000)

    async def listen(self, host: str, port: int, accept: Accept) -> Listener:
        self._accept[port] = accept
        return _MemoryListener(Address(host, port))

    def connect(self, host: str = "192.0.2.1", dialled: Address = DIALLED) -> MemoryConnection | None:
        """None if the broker rejects the connection."""
        connection = MemoryConnection(Address(host, next(self._ports)), dialled)
        connection.receiver = self._accept[dialled.port](connection)
        return None if connection.receiver is None else connection


class _MemoryListener:
    def __init__(self, address: Address) -> None:
        self.address = address

    def start(self) -> None:
        pass

    def close(self) -> None:
        pass


class _ManualTimer:
    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ManualClock:
    """A clock that the test advances."""

    def __init__(self) -> None:
        self._now = 1000.0
        self._timers: list[tuple[float, int, _ManualTimer]] = []
        self._count = itertools.count()

    def time_ms(self) -> int:
        return 1_700_000_000_000 + int(self._now * 1000)

    def monotonic(self) -> float:
        return self._now

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Timer:
        timer = _ManualTimer(functools.partial(callback, *args))
        heapq.heappush(self._timers, (self._now + delay, next(self._count), timer))
        return timer

    def pass_by(self, seconds: float) -> None:
        """Advance the time without firing timers, as if the CPU were busy."""
        self._now += seconds

    async def advance(self, seconds: float) -> None:
        """Fire the due timers in order, and let the event loop react after each."""
        end = self._now + seconds
        while self._timers and self._timers[0][0] <= end:
            self._now, _, timer = heapq.heappop(self._timers)
            if timer.callback is not None:
                timer.callback()
            await settle()
        self._now = end
        await settle()


class _ObservedServer(BrokerServer):
    """Gives tests access to its broker."""

    broker: Broker

    def _assemble(
        self, cluster_id: str, store: Store, metadata: ClusterMetadata, controller: Controller
    ) -> tuple[Broker, Roles]:
        self.broker, roles = super()._assemble(cluster_id, store, metadata, controller)
        return self.broker, roles


class Running(NamedTuple):
    broker: Broker
    network: MemoryNetwork
    clock: ManualClock

    def connect(self, host: str = "192.0.2.1") -> MemoryConnection:
        connection = self.network.connect(host)
        assert connection is not None, "the broker refused the connection"
        return connection

    async def call(self, request: Request, version: int, response: type[R], dialled: Address = DIALLED) -> R:
        """Send one request on a new connection."""
        connection = self.network.connect(dialled=dialled)
        assert connection is not None
        connection.request(request, version)
        await until(lambda: bool(connection.taken) or not connection.is_open)
        assert connection.is_open, f"hung up on {request}"
        answer = connection.reply(0, response, version)
        connection.close()
        return answer


@contextlib.asynccontextmanager
async def running(directory: Path, settings: Mapping[str, str] | None = None, **world: Any) -> AsyncIterator[Running]:
    """A broker without sockets, on a manual clock. `world` has other parts of `World`."""
    network, clock = MemoryNetwork(), ManualClock()
    config = BrokerConfig(
        {
            "log.dirs": str(directory),
            "listeners": "PLAINTEXT://127.0.0.1:9092",
            "offsets.topic.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            **(settings or {}),
        }
    )
    server = _ObservedServer(config, World(clock=clock, network=network, **world))
    await server.start()
    try:
        yield Running(server.broker, network, clock)
    finally:
        await server.stop()
