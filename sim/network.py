"""Hosts connected by links that can be slow, cut or reset. Streams have the guarantees of TCP and no others.

A stream delivers its bytes in order and once, or it breaks. While a link is cut, bytes wait as in the sender's kernel.
They arrive late when the link is restored, unless the stream was reset in between. Data that does not fit into the
window stays with the sender, and file slices stay unread, as with a real socket.
"""

from __future__ import annotations

import asyncio
import random
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from ottla.env.network import Accept, Address, FileSlice, Part, Receiver

if TYPE_CHECKING:
    from sim.loop import ProcessLoop, Scheduler
    from sim.trace import Trace

WINDOW = 32 * 1024
"""Maximum number of bytes in flight or unread in one direction of a stream."""

_SPLIT_CHANCE = 0.05


class Network:
    def __init__(self, scheduler: Scheduler, chance: random.Random, trace: Trace) -> None:
        self.scheduler = scheduler
        self.trace = trace
        self._chance = chance
        self._cut: dict[tuple[str, str], int] = {}
        """Directions between hosts that are cut, and the number of concurrent cuts."""
        self._slow: dict[str, float] = {}
        """Hosts with slow links, and the maximum delay in seconds."""
        self._listeners: dict[Address, SimListener] = {}
        self._silent: set[str] = set()
        """Hosts without power. They do not answer at all, not even with a refused connection."""
        self._streams: dict[Stream, None] = {}
        self._waiting: dict[Callable[[], None], None] = {}
        """Callbacks to run when a link is restored."""
        self._ports = 40_000

    # Faults

    def cut(self, source: str, target: str) -> None:
        self._cut[source, target] = self._cut.get((source, target), 0) + 1

    def mend(self, source: str, target: str) -> None:
        self._cut[source, target] -= 1
        if not self._cut[source, target]:
            del self._cut[source, target]
            for tell in list(self._waiting):
                tell()

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self._cut

    def slow_down(self, host: str, seconds: float) -> None:
        self._slow[host] = seconds

    def speed_up(self, host: str) -> None:
        self._slow.pop(host, None)

    def latency(self, source: str, target: str) -> float:
        most = max(self._slow.get(source, 0.0), self._slow.get(target, 0.0))
        usual = 0.0002 + self._chance.random() * 0.002
        return usual if not most else usual + self._chance.random() * most

    def split(self, size: int) -> int:
        """Where to split a piece of data; its size for no split."""
        return self._chance.randrange(1, size) if size > 1 and self._chance.random() < _SPLIT_CHANCE else size

    def when_mended(self, tell: Callable[[], None]) -> None:
        self._waiting[tell] = None

    def no_longer(self, tell: Callable[[], None]) -> None:
        self._waiting.pop(tell, None)

    def reset(self, one: str, other: str) -> None:
        """Break all streams between two hosts, as a middlebox does when it loses its connection table."""
        for stream in [it for it in self._streams if {it.client.host, it.server.host} == {one, other}]:
            stream.client.break_soon()
            stream.server.break_soon()

    # Hosts

    def power_off(self, host: str) -> None:
        """Peers get no notice. When the host is back, it resets their connections."""
        self._silent.add(host)

    def process_died(self, loop: ProcessLoop) -> None:
        """The operating system closes the streams of a dead process, unless the host lost power."""
        for address in [it for it, listener in self._listeners.items() if listener.loop is loop]:
            del self._listeners[address]
        for stream in list(self._streams):
            for end in (stream.client, stream.server):
                if end.loop is loop:
                    end.die(silently=loop.name in self._silent)

    def power_on(self, host: str) -> None:
        self._silent.discard(host)
        for stream in list(self._streams):
            if stream.client.died_silently and stream.client.host == host:
                stream.server.break_soon()
            elif stream.server.died_silently and stream.server.host == host:
                stream.client.break_soon()

    # Streams

    def forget(self, stream: Stream) -> None:
        self._streams.pop(stream, None)
        self.no_longer(stream.client.mended)
        self.no_longer(stream.server.mended)

    def bind(self, loop: ProcessLoop, address: Address, accept: Accept) -> SimListener:
        if address in self._listeners:
            raise OSError(98, "Address already in use")
        listener = self._listeners[address] = SimListener(self, loop, address, accept)
        return listener

    def unbind(self, listener: SimListener) -> None:
        if self._listeners.get(listener.address) is listener:
            del self._listeners[listener.address]

    async def connect(self, loop: ProcessLoop, factory: Callable[[], Any], host: str, port: int) -> tuple[Any, Any]:
        """Implements `create_connection`. The caller applies its own timeout."""
        while self.is_cut(loop.name, host) or self.is_cut(host, loop.name) or host in self._silent:  # noqa: ASYNC110
            await asyncio.sleep(0.5)
        await asyncio.sleep(self.latency(loop.name, host))
        listener = self._listeners.get(Address(host, port))
        if listener is None:
            raise ConnectionRefusedError(111, "Connection refused")
        self._ports += 1
        stream = Stream(self, loop, Address(loop.name, self._ports), listener)
        accepted: asyncio.Future[bool] = loop.create_future()
        listener.offer(stream, lambda welcome: loop.call_soon(_answer, accepted, welcome))
        welcome = await accepted
        await asyncio.sleep(self.latency(host, loop.name))
        if not welcome or stream.client.is_broken:
            raise ConnectionResetError(104, "Connection reset by peer")
        protocol = factory()
        transport = ClientTransport(stream.client, protocol)
        protocol.connection_made(transport)
        return transport, protocol

    def opened(self, stream: Stream) -> None:
        self._streams[stream] = None


def _answer(future: asyncio.Future[bool], welcome: bool) -> None:
    if not future.done():
        future.set_result(welcome)


class SimListener:
    """Implements `Listener`."""

    def __init__(self, network: Network, loop: ProcessLoop, address: Address, accept: Accept) -> None:
        self.loop = loop
        self.address = address
        self._network = network
        self._accept = accept
        self._queue: list[tuple[Stream, Callable[[bool], object]]] | None = []

    def offer(self, stream: Stream, answer: Callable[[bool], object]) -> None:
        if self._queue is not None:
            self._queue.append((stream, answer))
        else:
            self.loop.call_soon(self._welcome, stream, answer)

    def start(self) -> None:
        queue, self._queue = self._queue, None
        for stream, answer in queue or ():
            self.loop.call_soon(self._welcome, stream, answer)

    def _welcome(self, stream: Stream, answer: Callable[[bool], object]) -> None:
        receiver = self._accept(stream.server)
        if receiver is not None:
            stream.server.attach(receiver)
            self._network.opened(stream)
        answer(receiver is not None)

    def close(self) -> None:
        self._network.unbind(self)


class ProcessNetwork:
    """The network of one process. Implements `Network` of `ottla.env.network`."""

    def __init__(self, network: Network, loop: ProcessLoop) -> None:
        self._network = network
        self._loop = loop

    async def listen(self, host: str, port: int, accept: Accept) -> SimListener:
        return self._network.bind(self._loop, Address(host, port), accept)


class Stream:
    """Two ends, with a byte queue in each direction."""

    def __init__(self, network: Network, loop: ProcessLoop, local: Address, listener: SimListener) -> None:
        self.network = network
        self.client = End(self, loop, local, listener.address)
        self.server = End(self, listener.loop, listener.address, local)
        self.client.peer_end, self.server.peer_end = self.server, self.client

    def __repr__(self) -> str:
        return f"{self.client.local}>{self.server.local}"


class End:
    """One end of a stream. Implements `Connection` of `ottla.env.network`."""

    peer_end: End

    def __init__(self, stream: Stream, loop: ProcessLoop, local: Address, peer: Address) -> None:
        self.stream = stream
        self.loop = loop
        self.local = local
        self.peer = peer
        self.host = local.host
        self.is_broken = False
        self.died_silently = False
        self._receiver: Receiver | None = None
        self._network = stream.network
        self._outbox: deque[Part | None] = deque()
        """None marks the end of the stream."""
        self.unsent = 0
        self._on_the_way = 0
        self._last_arrival = 0.0
        self._stalled: list[bytes | None] = []
        self._unread: deque[bytes | None] = deque()
        self._reading = True
        self._was_full = False

    def attach(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._deliver()

    # Sending

    def send(self, parts: Sequence[Part]) -> None:
        if self.is_broken:
            return
        first = not self._outbox
        for part in parts:
            if len(part):
                self._outbox.append(part)
                self.unsent += len(part)
        if first and self._outbox:
            # Send later, like a real connection, after all ready callbacks have run.
            self.loop.call_soon(self._pump)

    def _pump(self) -> None:
        while self._outbox and self._on_the_way < WINDOW:
            part = self._outbox.popleft()
            if part is None:
                self._ship(None)
                continue
            room = WINDOW - self._on_the_way
            data = self._take(part, room)
            self.unsent -= len(data)
            while data:
                at = self._network.split(len(data))
                self._ship(data[:at])
                data = data[at:]
        if self._outbox:
            self._was_full = True
        elif self._receiver is not None and (self._was_full or not self._reading):
            self._was_full = False
            self.loop.call_soon(self._drained)

    def _take(self, part: Part, room: int) -> bytes:
        if isinstance(part, FileSlice):
            data = part.file.read(min(part.size, room), part.position)
            if len(part) > len(data):
                self._outbox.appendleft(FileSlice(part.file, part.position + len(data), part.size - len(data)))
            if data:
                return data
            self._outbox.clear()
            self.loop.call_soon(self.close)
            return b""
        if len(part) > room:
            self._outbox.appendleft(memoryview(part)[room:])
        return bytes(part[:room])

    def _drained(self) -> None:
        if self._receiver is not None:
            self._receiver.drained()

    def _ship(self, data: bytes | None) -> None:
        network = self._network
        self._on_the_way += len(data or b"")
        now = network.scheduler.now
        arrival = max(self._last_arrival, now + network.latency(self.host, self.peer.host))
        self._last_arrival = arrival
        network.scheduler.after(arrival - now, self._arrive, data)

    def _arrive(self, data: bytes | None) -> None:
        """Deliver to the other end. If the link is cut, deliver after it is restored."""
        if self.peer_end.is_broken:
            return
        if self._stalled or self._network.is_cut(self.host, self.peer.host):
            if not self._stalled:
                self._network.when_mended(self.mended)
            self._stalled.append(data)
            return
        crc = "end" if data is None else f"{len(data)} {zlib.crc32(data):08x}"
        self._network.trace.note(self._network.scheduler.now, self.local, ">", self.peer, crc)
        peer = self.peer_end
        peer._unread.append(data)
        peer.loop.call_soon(peer._deliver)

    def mended(self) -> None:
        if not self._network.is_cut(self.host, self.peer.host):
            self._network.no_longer(self.mended)
            stalled, self._stalled = self._stalled, []
            for data in stalled:
                self._on_the_way -= len(data or b"")
                self._ship(data)

    # Receiving

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        if not self._reading:
            self._reading = True
            self.loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        while self._unread and self._reading and self._receiver is not None:
            data = self._unread[0]
            if data is None:
                self._unread.clear()
                self.broken()
                return
            buffer = self._receiver.buffer()
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            if count < len(data):
                self._unread[0] = data[count:]
            else:
                self._unread.popleft()
            sender = self.peer_end
            sender._on_the_way -= count
            if sender._outbox and not sender.loop.dead:
                sender.loop.call_soon(sender._pump)
            self._receiver.received(count)

    # Closing

    def close(self) -> None:
        """Close the stream. The peer receives the remaining data first."""
        if self.is_broken:
            return
        if not self.loop.dead:
            self._pump()
        self._outbox.clear()
        self._ship(None)
        self._end()

    def die(self, *, silently: bool) -> None:
        """The process of this end has died."""
        if not self.is_broken:
            self.died_silently = silently
            self._outbox.clear()
            if not silently:
                self._ship(None)
            self.is_broken = True
            self._receiver = None
            if not silently:
                self._forget()

    def broken(self) -> None:
        """The stream was ended by the peer or by the network."""
        if not self.is_broken:
            self._end()
            if not self.peer_end.is_broken:
                self.peer_end.break_soon()

    def break_soon(self) -> None:
        self.loop.call_soon(self.broken)

    def _end(self) -> None:
        self.is_broken = True
        self._outbox.clear()
        self.unsent = 0
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.closed()
        self._forget()

    def _forget(self) -> None:
        if self.peer_end.is_broken:
            self._network.forget(self.stream)


class ClientTransport:
    """The part of `asyncio.Transport` that Ottla's client uses."""

    def __init__(self, end: End, protocol: asyncio.BufferedProtocol) -> None:
        self._end = end
        self._protocol = protocol
        end.attach(cast("Receiver", self))

    def buffer(self) -> memoryview:
        return cast("memoryview", self._protocol.get_buffer(-1))

    def received(self, count: int) -> None:
        self._protocol.buffer_updated(count)

    def drained(self) -> None:
        pass

    def closed(self) -> None:
        self._end.loop.call_soon(self._protocol.connection_lost, None)

    def writelines(self, parts: Sequence[bytes]) -> None:
        self._end.send([b"".join(parts)])

    def abort(self) -> None:
        self._end.close()
