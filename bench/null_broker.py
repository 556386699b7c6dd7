"""The null broker: writes received records to a file and sends slices of this file.

It only knows where a request ends and whether it is a Fetch. It has no offsets, checks or topics. Its cost is the cost
of the kernel's sockets and files, which is the minimum for any broker. With `--fsync` it syncs before each reply, like
a broker without group commit. Real producers get the replies that they expect, so they can send at full speed.
"""

import argparse
import os
import select
import socket
import struct
from collections import deque
from pathlib import Path

from bench import wire
from bench.null_replies import Replies
from ottla.wire.api import API_VERSIONS, FETCH, PRODUCE
from ottla.wire.api.api_versions import ApiVersionsResponse
from ottla.wire.api.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.wire.api.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse

_RECEIVE_BYTES = 1 << 20
_HEAD = struct.Struct(">ihh")
"""The size of a request, its API key and version."""
_RAW = {(PRODUCE.key, wire.PRODUCE_VERSION), (FETCH.key, wire.FETCH_VERSION), (API_VERSIONS.key, 0)}
"""The requests of the raw generator. It matches replies by order, so every reply can have the same bytes."""

_buffer = bytearray(_RECEIVE_BYTES)
_view = memoryview(_buffer)


def _produce_reply() -> bytes:
    topic = TopicProduceResponse(name=wire.RAW_TOPIC, partition_responses=[PartitionProduceResponse()])
    return wire.reply_of(ProduceResponse(responses=[topic]), wire.PRODUCE_VERSION)


def _fetch_reply() -> tuple[bytes, bytes]:
    """The bytes before and after the records."""
    records = b"\xaa" * wire.LARGE_BATCH
    topic = FetchableTopicResponse(topic=wire.RAW_TOPIC, partitions=[PartitionData(records=records)])
    before, after = wire.reply_of(FetchResponse(responses=[topic]), wire.FETCH_VERSION).split(records)
    return before, after


class NullBroker:
    def __init__(self, file: Path, port: int, *, fsync: bool) -> None:
        self.file = os.open(file, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        self.size = 0
        self.starts_over = False
        """True after the last client has left: the next produce empties the file, a fetch keeps it."""
        self.fsync = fsync
        self.poller = select.epoll()
        self.produce_reply = _produce_reply()
        self.fetch_before, self.fetch_after = _fetch_reply()
        self.api_versions_reply = wire.reply_of(ApiVersionsResponse(), 0)
        self._next_slice = 0
        self._listener = socket.create_server(("127.0.0.1", port), backlog=1024)
        self._connections: dict[int, _Connection] = {}
        self.poller.register(self._listener.fileno(), select.EPOLLIN)

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def serve(self) -> None:
        while True:
            for fd, events in self.poller.poll():
                if fd == self._listener.fileno():
                    peer, _ = self._listener.accept()
                    connection = _Connection(self, peer)
                    self._connections[peer.fileno()] = connection
                elif not self._connections[fd].ready(events):
                    self._connections.pop(fd).socket.close()
                    self.starts_over = not self._connections

    def append(self, data: memoryview) -> None:
        if self.starts_over:
            os.ftruncate(self.file, 0)
            self.size, self.starts_over = 0, False
        self.size += os.pwrite(self.file, data, self.size)

    def next_slice(self) -> int:
        """Position of the next batch to fetch; begins again at the end of the file."""
        position = self._next_slice
        if position + wire.LARGE_BATCH > self.size:
            position = 0
        self._next_slice = position + wire.LARGE_BATCH
        return position


class _Connection:
    def __init__(self, broker: NullBroker, peer: socket.socket) -> None:
        peer.setblocking(False)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        broker.poller.register(peer.fileno(), select.EPOLLIN)
        self.socket = peer
        self._broker = broker
        self._head = bytearray()
        self._remaining = 0
        self._api_key = 0
        self._is_raw = True
        self._frame = bytearray()
        """For clients other than the raw generator: the bytes of the request so far."""
        self._replies = Replies(broker.port)
        self._unsent: deque[bytes | memoryview | tuple[int, int]] = deque()
        """Bytes, or a slice of the file as position and length."""

    def ready(self, events: int) -> bool:
        """Returns False if the client has closed the connection."""
        try:
            if events & select.EPOLLOUT:
                self._flush()
            return not events & ~select.EPOLLOUT or self._receive()
        except ConnectionError:
            return False

    def _receive(self) -> bool:
        count = self.socket.recv_into(_buffer)
        position = 0
        while position < count:
            if not self._remaining:
                wanted = _HEAD.size - len(self._head)
                self._head += _view[position : min(position + wanted, count)]
                position = min(position + wanted, count)
                if len(self._head) < _HEAD.size:
                    break
                size, self._api_key, version = _HEAD.unpack(self._head)
                self._remaining = size - (_HEAD.size - 4)
                self._is_raw = (self._api_key, version) in _RAW
                if not self._is_raw:
                    self._frame += self._head[4:]
                self._head.clear()
            step = min(self._remaining, count - position)
            if self._api_key == PRODUCE.key:
                self._broker.append(_view[position : position + step])
            if not self._is_raw:
                self._frame += _view[position : position + step]
            position += step
            self._remaining -= step
            if not self._remaining:
                self._answer()
        return count > 0

    def _answer(self) -> None:
        broker = self._broker
        if not self._is_raw:
            self._send(self._replies.reply_to(memoryview(self._frame)))
            self._frame = bytearray()
        elif self._api_key == PRODUCE.key:
            if broker.fsync:
                os.fdatasync(broker.file)
            self._send(broker.produce_reply)
        elif self._api_key == FETCH.key:
            self._send(broker.fetch_before, (broker.next_slice(), wire.LARGE_BATCH), broker.fetch_after)
        else:
            self._send(broker.api_versions_reply)

    def _send(self, *parts: bytes | tuple[int, int]) -> None:
        was_empty = not self._unsent
        self._unsent.extend(parts)
        if was_empty:
            self._flush()
            if self._unsent:
                self._broker.poller.modify(self.socket.fileno(), select.EPOLLIN | select.EPOLLOUT)

    def _flush(self) -> None:
        while self._unsent:
            first = self._unsent[0]
            try:
                if isinstance(first, tuple):
                    position, length = first
                    sent = os.sendfile(self.socket.fileno(), self._broker.file, position, length)
                    rest: bytes | memoryview | tuple[int, int] = (position + sent, length - sent)
                    done = sent == length
                else:
                    sent = self.socket.send(first)
                    rest, done = memoryview(first)[sent:], sent == len(first)
            except BlockingIOError:
                return
            if not done:
                self._unsent[0] = rest
                return
            self._unsent.popleft()
        self._broker.poller.modify(self.socket.fileno(), select.EPOLLIN)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.null_broker", description=__doc__)
    parser.add_argument("--file", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--fsync", action="store_true")
    arguments = parser.parse_args()
    NullBroker(arguments.file, arguments.port, fsync=arguments.fsync).serve()


if __name__ == "__main__":
    main()
