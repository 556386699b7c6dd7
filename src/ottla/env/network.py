"""The network: byte streams in and out, with file slices that leave without being copied through Python.

A `Receiver` lends the network a buffer to fill, so that a frame is parsed where it landed. Sockets are driven
directly (no asyncio transport), because a transport keeps its own write buffer and a file slice must not overtake it.
"""

import asyncio
import contextlib
import logging
import socket
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias

from ottla.env.disk import Buffer, File
from ottla.env.platform import MSG_MORE, sendfile

logger = logging.getLogger("ottla.network")


class FileSlice(NamedTuple):
    """Bytes that are still in a file. Holding the slice keeps the file open."""

    file: File
    position: int
    size: int

    def __len__(self) -> int:
        return self.size

    def read(self) -> bytes:
        return self.file.read(self.size, self.position)


Part: TypeAlias = Buffer | FileSlice
"""One piece of what is sent."""


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Connection(Protocol):
    """One end of a byte stream, as its receiver sees it."""

    local: Address
    peer: Address

    @property
    def unsent(self) -> int:
        """Bytes queued that the peer has not taken yet."""

    def send(self, parts: Sequence[Part]) -> None:
        """Queue the parts; they are sent, as far as the peer takes them, when all who are ready have been served."""

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None:
        """Drop the connection at once. `Receiver.closed` follows, exactly once."""


class Receiver(Protocol):
    def buffer(self) -> memoryview:
        """Where the next bytes go. Never empty."""

    def received(self, count: int) -> None:
        """`count` bytes were put into the buffer lent last."""

    def drained(self) -> None:
        """Everything queued has been sent, after a time when the peer was too slow or reading was paused."""

    def closed(self) -> None:
        """The connection is gone, for whatever reason."""


class Listener(Protocol):
    """A bound address. Who connects before `start` waits in the queue."""

    address: Address

    def start(self) -> None: ...

    def close(self) -> None: ...


Accept: TypeAlias = Callable[[Connection], Receiver | None]
"""Called with each new connection; None refuses it."""


class Network(Protocol):
    async def listen(self, host: str, port: int, accept: Accept) -> Listener: ...


_BACKLOG = 1024
_ACCEPTS_PER_WAKEUP = 64
_MAX_GATHERED = 32 << 10
"""About where the kernel's copies begin to cost more than its calls."""
_MAX_SENDFILE = 1 << 20
"""Few enough bytes that those at both ends tell whether all of them are in memory."""


class _ColdSlice(Exception):  # noqa: N818 - it names the thing that is in the way
    """What is to be sent next is on the disk only."""


class _Outgoing:
    """Connections with something to send, until the event loop has served everybody who was ready.

    Sending wakes the peer up, which costs more than the bytes do. A peer that is answered on several connections, or
    that shares a core with others who are, is woken once instead of each time.
    """

    __slots__ = ("_connections", "_loop", "_read", "_slice")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._connections: list[SocketConnection] = []
        self._slice: FileSlice | None = None
        self._read: bytearray | None = None
        """What is in the slice, which many may have waited for: they get it from one read."""

    def add(self, connection: "SocketConnection") -> None:
        if not self._connections:
            self._loop.call_soon(self._send_all)
        self._connections.append(connection)

    def _send_all(self) -> None:
        connections, self._connections = self._connections, []
        self._slice = self._read = None
        for connection in connections:
            try:
                connection.send_queued()
            except Exception:
                # The replies of the other connections must not wait for this one.
                logger.exception("closing the connection of %s: its replies cannot be sent", connection.peer)
                connection.abort()

    def gathered(self, parts: Sequence[Part]) -> Sequence[Part]:
        """A small reply in one piece: to copy it costs less than the calls that it takes to send a slice of a file.

        `add` must follow.
        """
        if sum(map(len, parts)) > _MAX_GATHERED:
            return parts
        pieces: list[Buffer] = []
        for part in parts:
            piece = self._read_once(part) if isinstance(part, FileSlice) else part
            if piece is None:
                return parts
            pieces.append(piece)
        return [b"".join(pieces)]

    def _read_once(self, part: FileSlice) -> bytearray | None:
        if part != self._slice:
            self._slice, self._read = part, _read_cached(part)
        return self._read


class SocketConnection:
    """A non-blocking socket on the running event loop."""

    __slots__ = (
        "_loop",
        "_outbox",
        "_outgoing",
        "_reading",
        "_receiver",
        "_socket",
        "_warm",
        "_warming",
        "_writing",
        "local",
        "peer",
        "unsent",
    )

    def __init__(
        self, loop: asyncio.AbstractEventLoop, outgoing: _Outgoing, sock: socket.socket, peer: Address
    ) -> None:
        self._loop = loop
        self._outgoing = outgoing
        self._socket: socket.socket | None = sock
        self._receiver: Receiver | None = None
        self._outbox: deque[Part] = deque()
        self.unsent = 0
        self._reading = False
        self._writing = False
        self._warming = False
        self._warm: FileSlice | None = None
        """What was seen to be in memory, or brought there: asked about once, however many calls it takes to send it."""
        self.local = _address(sock.getsockname())
        self.peer = peer

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self.resume_reading()

    def pause_reading(self) -> None:
        if self._reading and self._socket is not None:
            self._reading = False
            self._loop.remove_reader(self._socket.fileno())

    def resume_reading(self) -> None:
        if not self._reading and self._socket is not None:
            self._reading = True
            self._loop.add_reader(self._socket.fileno(), self._readable)

    def _readable(self) -> None:
        receiver = self._receiver
        if self._socket is None or receiver is None:
            return
        try:
            count = self._socket.recv_into(receiver.buffer())
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            count = 0
        if count:
            receiver.received(count)
        else:
            self.close()

    def send(self, parts: Sequence[Part]) -> None:
        if self._socket is None:
            return
        outbox = self._outbox
        if not outbox:
            if len(parts) > 1:
                parts = self._outgoing.gathered(parts)
            self._outgoing.add(self)
        for part in parts:
            if size := len(part):
                outbox.append(part)
                self.unsent += size

    def send_queued(self) -> None:
        """Hand to the kernel what it takes now."""
        if self._writing or self._warming:
            return
        self._send_now()
        if not self._outbox and not self._reading and self._receiver is not None:
            # The receiver may have paused because of what is gone now.
            self._receiver.drained()

    def _send_now(self) -> None:
        outbox = self._outbox
        try:
            while outbox:
                part = outbox[0]
                if isinstance(part, FileSlice):
                    self._send_file_slice(part)
                else:
                    self._send_bytes(part)
        except (BlockingIOError, InterruptedError):
            self._wait_writable()
        except _ColdSlice:
            self._fetch_from_disk()
        except OSError:
            self.close()

    def _send_bytes(self, first: Buffer) -> None:
        sock, outbox = self._socket, self._outbox
        assert sock is not None
        if len(outbox) == 1:
            sent = sock.send(first)
            if sent == self.unsent:
                outbox.clear()
                self.unsent = 0
                return
        else:
            run: list[Buffer] = []
            for part in outbox:
                if isinstance(part, FileSlice) or len(run) == 64:
                    break
                run.append(part)
            # More follows (a file slice, or what is past the run): let the kernel fill whole packets.
            sent = sock.sendmsg(run, (), MSG_MORE if len(run) < len(outbox) else 0)
        self.unsent -= sent
        while sent:
            head = outbox[0]
            if sent < len(head):
                outbox[0] = memoryview(head)[sent:]  # type: ignore[arg-type]
                raise BlockingIOError
            sent -= len(head)
            outbox.popleft()

    def _send_file_slice(self, part: FileSlice) -> None:
        assert self._socket is not None
        file, position, size = part
        warm = self._warm
        if warm is None or warm.file is not file or not 0 <= position - warm.position < warm.size:
            warm = FileSlice(file, position, min(size, _MAX_SENDFILE))
            if not _ends_are_cached(warm):
                raise _ColdSlice
            self._warm = warm
        wanted = min(size, warm.position + warm.size - position)
        sent = sendfile(self._socket.fileno(), file.fileno(), position, wanted)
        if sent == 0:
            raise OSError("the file ends before the slice does")
        self.unsent -= sent
        if sent < size:
            self._outbox[0] = FileSlice(file, position + sent, size - sent)
            if sent < wanted:
                raise BlockingIOError
        else:
            self._outbox.popleft()
            self._warm = None  # lest a connection with nothing to send keep a file open

    def _fetch_from_disk(self) -> None:
        """Have a thread wait for the disk, so that a reader of old data holds up nobody else."""
        part = self._outbox[0]
        assert isinstance(part, FileSlice)
        self._warming = True
        cold = FileSlice(part.file, part.position, min(part.size, _MAX_SENDFILE))
        self._loop.run_in_executor(None, cold.read).add_done_callback(partial(self._warmed, cold))

    def _warmed(self, part: FileSlice, reading: asyncio.Future[bytes]) -> None:
        self._warming = False
        if self._socket is None:
            return
        if reading.exception() is not None:
            self.close()
            return
        self._warm = part  # to be sent whatever the page cache does, lest it be read over and over
        self._writable()

    def _wait_writable(self) -> None:
        if not self._writing and self._socket is not None:
            self._writing = True
            self._loop.add_writer(self._socket.fileno(), self._writable)

    def _writable(self) -> None:
        if self._socket is None:
            return
        self._send_now()
        if self._writing and self._socket is not None and (self._warming or not self._outbox):
            self._writing = False
            self._loop.remove_writer(self._socket.fileno())
        if not self._outbox and self._receiver is not None:
            self._receiver.drained()

    def abort(self) -> None:
        """Close without another try to send what is queued."""
        self._outbox.clear()
        self.close()

    def close(self) -> None:
        if self._outbox and not self._writing and not self._warming and self._socket is not None:
            # The last words: what was said before hanging up, as far as the kernel takes it without waiting.
            self._writing = True
            self._send_now()
        sock, self._socket = self._socket, None
        if sock is None:
            return
        self._loop.remove_reader(sock.fileno())
        if self._writing:
            self._loop.remove_writer(sock.fileno())
        sock.close()
        self._outbox.clear()
        self.unsent = 0
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.closed()


class SocketListener:
    def __init__(self, loop: asyncio.AbstractEventLoop, sock: socket.socket, accept: Accept) -> None:
        self._loop = loop
        self._outgoing = _Outgoing(loop)
        self._socket = sock
        self._accept = accept
        self.address = _address(sock.getsockname())

    def start(self) -> None:
        self._loop.add_reader(self._socket.fileno(), self._acceptable)

    def _acceptable(self) -> None:
        for _ in range(_ACCEPTS_PER_WAKEUP):
            try:
                sock, peer = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:
                # Out of file descriptors: leave the queue to the kernel for a moment instead of spinning on it.
                self._loop.remove_reader(self._socket.fileno())
                self._loop.call_later(0.1, self._accept_again)
                return
            if peer is None:
                sock.close()  # macOS returns no address if the peer has already reset the connection.
            else:
                self._welcome(sock, _address(peer))

    def _accept_again(self) -> None:
        if self._socket.fileno() >= 0:
            self.start()

    def _welcome(self, sock: socket.socket, peer: Address) -> None:
        sock.setblocking(False)
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = SocketConnection(self._loop, self._outgoing, sock, peer)
        receiver = self._accept(connection)
        if receiver is None:
            sock.close()
        else:
            connection.start(receiver)

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()


class SocketNetwork:
    async def listen(self, host: str, port: int, accept: Accept) -> SocketListener:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((host, port))
            sock.listen(_BACKLOG)
        except OSError:
            sock.close()
            raise
        return SocketListener(asyncio.get_running_loop(), sock, accept)


def _read_cached(part: FileSlice) -> bytearray | None:
    try:
        return part.file.read_cached(part.size, part.position)
    except OSError:
        return None  # to be met again when it is the part's turn to be sent


def _ends_are_cached(part: FileSlice) -> bool:
    file, position, size = part
    return file.read_cached(1, position) is not None and file.read_cached(1, position + size - 1) is not None


def _address(name: Any) -> Address:
    return Address(name[0], name[1])
