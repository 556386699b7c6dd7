"""One non-blocking connection of the raw generator. It sends frames, counts replies and checks error codes only."""

import contextlib
import select
import socket
import struct
from collections import deque

from bench import wire

_SIZE = struct.Struct(">i")
_NO_ERROR = b"\0\0"
_HIGH_WATERMARK = struct.Struct(">q")
_RECEIVE_BYTES = 1 << 20

_buffer = bytearray(_RECEIVE_BYTES)
_view = memoryview(_buffer)


class ReplyError(Exception):
    """The broker returned an error or less data than requested."""


class Channel:
    """Replies arrive in order, so `sent_at` holds the send times of the open requests."""

    __slots__ = ("_error_at", "_head", "_head_bytes", "_least_bytes", "_poller", "_remaining", "_unsent", "last_head",
                 "received_bytes", "sent_at", "sent_bytes", "socket")  # fmt: skip

    def __init__(
        self, bootstrap: str, poller: select.epoll, topic: str, *, fetches: bool, least_bytes: int = 0
    ) -> None:
        client = wire.Client(bootstrap)
        client.hello()  # Wait for each reply: thousands of connects at once would overflow the backlog.
        self.socket = client.socket
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.sent_at: deque[int] = deque()
        self.sent_bytes = 0
        self.received_bytes = 0
        self.last_head = b""
        self._error_at = 4 + wire.error_position(topic, fetches)
        self._head_bytes = self._error_at + 2 + (8 if fetches else 0)
        self._least_bytes = least_bytes
        self._head = bytearray()
        self._remaining = 0
        self._unsent: deque[memoryview] = deque()
        self._poller = poller
        poller.register(self.socket.fileno(), select.EPOLLIN)

    def close(self) -> None:
        self.socket.close()

    def send(self, frame: bytes | bytearray, now: int) -> None:
        self.sent_at.append(now)
        self.sent_bytes += len(frame)
        sent = 0
        if not self._unsent:
            with contextlib.suppress(BlockingIOError):
                sent = self.socket.send(frame)
            if sent == len(frame):
                return
            self._poller.modify(self.socket.fileno(), select.EPOLLIN | select.EPOLLOUT)
        self._unsent.append(memoryview(frame)[sent:])

    def flush(self) -> None:
        """Send the data that did not fit into the socket buffer."""
        while self._unsent:
            first = self._unsent[0]
            try:
                sent = self.socket.send(first)
            except BlockingIOError:
                return
            if sent < len(first):
                self._unsent[0] = first[sent:]
                return
            self._unsent.popleft()
        self._poller.modify(self.socket.fileno(), select.EPOLLIN)

    def receive(self) -> int:
        """Read the available data. Returns the number of completed replies."""
        count = self.socket.recv_into(_buffer)
        if count == 0:
            raise ConnectionError("the broker closed the connection")
        self.received_bytes += count
        completed = position = 0
        while position < count:
            if self._remaining:
                step = min(self._remaining, count - position)
                position += step
            else:
                position, step = self._read_head(position, count)
            self._remaining -= step
            completed += step > 0 and not self._remaining
        return completed

    def _read_head(self, position: int, count: int) -> tuple[int, int]:
        """Collect the first bytes of a reply. Returns the new position and, once complete, the size of these bytes."""
        wanted = self._head_bytes - len(self._head)
        self._head += _view[position : min(position + wanted, count)]
        if len(self._head) < self._head_bytes:
            return count, 0
        (size,) = _SIZE.unpack_from(self._head)
        if self._head[self._error_at : self._error_at + 2] != _NO_ERROR or size < self._least_bytes:
            raise ReplyError(f"a reply of {size} bytes starts with {bytes(self._head).hex()}")
        self.last_head = bytes(self._head)
        self._head.clear()
        self._remaining = 4 + size
        return position + wanted, self._head_bytes

    @property
    def high_watermark(self) -> int:
        """High watermark of the partition in the last reply to a fetch."""
        offset: int = _HIGH_WATERMARK.unpack_from(self.last_head, self._error_at + 2)[0]
        return offset
