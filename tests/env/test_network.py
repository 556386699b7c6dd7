"""The network on real sockets: order, partial sends, file slices, back-pressure, and all ways to close."""

import asyncio
import os
import resource
import socket
import struct
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import pytest

from ottla.env.disk import File, OsDisk, OsFile
from ottla.env.network import Address, Connection, FileSlice, Listener, Part, SocketListener, SocketNetwork
from tests.server.worlds import asynchronous, settle, until

TOO_MUCH = 32 << 20
"""More bytes than the kernel buffers for a peer that does not read."""


class Recorder:
    """Records the events of one connection."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.data = bytearray()
        self.drains = 0
        self.ends = 0
        self._buffer = memoryview(bytearray(1000))

    def buffer(self) -> memoryview:
        return self._buffer

    def received(self, count: int) -> None:
        self.data += self._buffer[:count]

    def drained(self) -> None:
        self.drains += 1

    def closed(self) -> None:
        self.ends += 1


class Server:
    def __init__(self) -> None:
        self.clients: list[Recorder] = []
        self.refuses = False

    def accept(self, connection: Connection) -> Recorder | None:
        if self.refuses:
            return None
        self.clients.append(Recorder(connection))
        return self.clients[-1]

    async def client(self) -> tuple[socket.socket, Recorder]:
        """A connected non-blocking socket and its peer."""
        count = len(self.clients)
        sock = socket.create_connection(self.listener.address)
        sock.setblocking(False)
        await until(lambda: len(self.clients) > count)
        return sock, self.clients[-1]

    listener: Listener


@asynccontextmanager
async def listening(host: str = "127.0.0.1") -> AsyncIterator[Server]:
    server = Server()
    server.listener = await SocketNetwork().listen(host, 0, server.accept)
    server.listener.start()
    try:
        yield server
    finally:
        server.listener.close()
        for client in server.clients:
            client.connection.close()


async def read(sock: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        chunk = await asyncio.get_running_loop().sock_recv(sock, 1 << 20)
        if not chunk:
            break
        data += chunk
    return bytes(data)


def file_of(directory: Path, data: bytes) -> FileSlice:
    path = directory / "file"
    path.write_bytes(b"before" + data + b"after")
    return FileSlice(OsDisk().open(str(path)), 6, len(data))


@asynchronous
async def test_bytes_come_and_go() -> None:
    async with listening() as server:
        sock, there = await server.client()
        sock.sendall(b"hello " * 500)
        await until(lambda: len(there.data) == 3000)
        there.connection.send([b"a", bytearray(b"b"), memoryview(b"c")])
        assert await read(sock, 3) == b"abc"
        assert there.connection.unsent == 0
        assert there.connection.local == Address(*sock.getpeername())
        assert there.connection.peer == Address(*sock.getsockname())


def mixed_parts(directory: Path) -> tuple[list[Part], bytes]:
    """Many small and large parts, bytes and files, in turns."""
    slice_ = file_of(directory, os.urandom(5 << 20))
    content = slice_.read()
    parts: list[Part] = []
    expected = bytearray()
    for number in range(200):
        small = b"<%d>" % number
        parts += [small, b"", small]
        expected += small + small
        if number % 50 == 0:
            parts += [slice_, bytes(1 << 20)]
            expected += content + bytes(1 << 20)
    return parts, bytes(expected)


@asynchronous
async def test_parts_arrive_in_order_however_slowly(tmp_path: Path) -> None:
    parts, expected = mixed_parts(tmp_path)
    async with listening() as server:
        sock, there = await server.client()
        for start in range(0, len(parts), 7):
            there.connection.send(parts[start : start + 7])
        assert there.connection.unsent > 0
        assert await read(sock, len(expected)) == expected
        await until(lambda: there.connection.unsent == 0)
        await until(lambda: there.drains == 1)


@asynchronous
async def test_a_file_slice_survives_the_file(tmp_path: Path) -> None:
    """A deleted segment is still sent completely to a slow consumer."""
    content = os.urandom(TOO_MUCH)
    async with listening() as server:
        sock, there = await server.client()
        there.connection.send([file_of(tmp_path, content)])
        (tmp_path / "file").unlink()
        await settle()
        assert there.connection.unsent > 0
        assert await read(sock, len(content)) == content


@asynchronous
async def test_a_file_that_is_shorter_than_its_slice_ends_the_connection(tmp_path: Path) -> None:
    """The length was already sent, so the connection must be closed."""
    short = FileSlice(file_of(tmp_path, b"short").file, 6, 1000)
    async with listening() as server:
        sock, there = await server.client()
        there.connection.send([b"length", short])
        assert await read(sock, 2000) == b"lengthshortafter"
        assert there.ends == 1


@asynchronous
async def test_reading_can_be_paused() -> None:
    async with listening() as server:
        sock, there = await server.client()
        there.connection.pause_reading()
        there.connection.pause_reading()
        sock.sendall(b"hello")
        await asyncio.sleep(0.02)
        assert there.data == b""
        there.connection.resume_reading()
        there.connection.resume_reading()
        await until(lambda: there.data == b"hello")


@pytest.mark.parametrize("linger", [False, True], ids=["FIN", "RST"])
@asynchronous
async def test_the_end_of_the_peer_is_told_once(linger: bool) -> None:
    async with listening() as server:
        sock, there = await server.client()
        if linger:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()
        await until(lambda: there.ends == 1)
        there.connection.close()
        there.connection.send([b"into the void"])
        there.connection.pause_reading()
        there.connection.resume_reading()
        assert there.connection.unsent == 0
        assert there.ends == 1


class WatchedFile(OsFile):
    """A file that is in memory. Records the reads from the page cache."""

    def __init__(self, path: Path) -> None:
        super().__init__(os.open(path, os.O_RDONLY))
        self.asked: list[tuple[int, int]] = []

    def read_cached(self, size: int, position: int) -> bytearray | None:
        self.asked.append((size, position))
        return bytearray(self.read(size, position))


@asynchronous
async def test_many_who_are_sent_the_same_records_cost_one_read(tmp_path: Path) -> None:
    """But only while they are sent together: a deleted file must not stay open."""
    content = os.urandom(400)
    (tmp_path / "file").write_bytes(content)
    file = WatchedFile(tmp_path / "file")
    async with listening() as server:
        clients = [await server.client() for _ in range(40)]
        for turn in range(1, 3):
            for _, there in clients:
                there.connection.send([b"<", FileSlice(file, 100, 200), b">"])
            for sock, _ in clients:
                assert await read(sock, 202) == b"<" + content[100:300] + b">"
            # Once for each group of replies that are sent together.
            assert set(file.asked) == {(200, 100)}
            assert turn <= len(file.asked) < 10 * turn


@asynchronous
async def test_a_slow_reader_of_a_large_slice_does_not_ask_the_page_cache_each_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(TOO_MUCH))
    file = WatchedFile(tmp_path / "file")
    async with listening() as server:
        sock, there = await server.client()
        there.connection.send([FileSlice(file, 0, TOO_MUCH)])
        received = 0
        while received < TOO_MUCH:
            received += len(await read(sock, 1))
        assert len(file.asked) == 2 * (TOO_MUCH >> 20)


class ColdFile(OsFile):
    """A file in memory, except for some bytes, which are on a disk that answers when the test says so."""

    def __init__(self, path: Path, cold: set[int]) -> None:
        super().__init__(os.open(path, os.O_RDONLY))
        self.may_answer = threading.Event()
        self.fails = False
        self.reads: list[tuple[int, int]] = []
        self._cold = cold

    def read_cached(self, size: int, position: int) -> bytearray | None:
        if any(position <= cold < position + size for cold in self._cold):
            return None
        return bytearray(super().read(size, position))

    def read(self, size: int, position: int) -> bytes:
        self.reads.append((size, position))
        assert self.may_answer.wait(60)
        if self.fails:
            raise OSError("the disk is gone")
        return super().read(size, position)


@pytest.mark.parametrize("cold", [10, 10 + 4999])
@asynchronous
async def test_a_slice_that_is_not_in_memory_holds_up_its_own_connection_only(tmp_path: Path, cold: int) -> None:
    content = os.urandom(10_000)
    (tmp_path / "file").write_bytes(content)
    file = ColdFile(tmp_path / "file", {cold})
    async with listening() as server:
        old, old_end = await server.client()
        new, new_end = await server.client()
        old_end.connection.send([b"<", FileSlice(file, 10, 5000), b">"])
        await until(lambda: len(file.reads) == 1)
        old_end.connection.send([b"more"])
        new_end.connection.send([b"at once"])
        assert await read(new, 7) == b"at once"
        assert await read(old, 1) == b"<"
        file.may_answer.set()
        assert await read(old, 5005) == content[10:5010] + b">more"
        assert file.reads == [(5000, 10)]
        assert old_end.connection.unsent == 0


@pytest.mark.parametrize("gone", ["disk", "peer"])
@asynchronous
async def test_a_slice_that_cannot_be_read_ends_the_connection(tmp_path: Path, gone: str) -> None:
    (tmp_path / "file").write_bytes(bytes(100))
    file = ColdFile(tmp_path / "file", {0})
    async with listening() as server:
        sock, there = await server.client()
        there.connection.send([FileSlice(file, 0, 100)])
        await until(lambda: len(file.reads) == 1)
        if gone == "peer":
            sock.close()
            await until(lambda: there.ends == 1)
        file.fails = gone == "disk"
        file.may_answer.set()
        await until(lambda: there.ends == 1)
        await settle()
        assert (there.ends, there.connection.unsent) == (1, 0)


@asynchronous
async def test_closing_drops_what_is_unsent() -> None:
    async with listening() as server:
        sock, there = await server.client()
        there.connection.send([bytes(TOO_MUCH)])
        assert there.connection.unsent > 0
        there.connection.close()
        assert there.connection.unsent == 0
        assert there.ends == 1
        assert len(await read(sock, TOO_MUCH)) < TOO_MUCH


@asynchronous
async def test_a_peer_that_hangs_up_while_it_is_sent_to() -> None:
    async with listening() as server:
        sock, there = await server.client()
        there.connection.send([bytes(TOO_MUCH)])
        sock.close()
        await until(lambda: there.ends == 1)


@asynchronous
async def test_a_refused_connection_is_closed() -> None:
    async with listening() as server:
        server.refuses = True
        sock = socket.create_connection(server.listener.address)
        sock.setblocking(False)
        assert await read(sock, 1) == b""
        assert server.clients == []


@asynchronous
async def test_a_listener_that_is_closed_accepts_nobody() -> None:
    async with listening() as server:
        address = server.listener.address
        server.listener.close()
        server.listener.close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)


@asynchronous
async def test_who_connects_before_the_start_is_accepted_after_it() -> None:
    server = Server()
    server.listener = await SocketNetwork().listen("127.0.0.1", 0, server.accept)
    with socket.create_connection(server.listener.address):
        await asyncio.sleep(0)
        assert server.clients == []
        server.listener.start()
        await until(lambda: len(server.clients) == 1)
        server.clients[0].connection.close()
    server.listener.close()


@asynchronous
async def test_two_listeners_cannot_share_a_port() -> None:
    async with listening() as server:
        with pytest.raises(OSError, match="in use"):
            await SocketNetwork().listen("127.0.0.1", server.listener.address.port, server.accept)


class PeerlessSocket(socket.socket):
    """Its first connection has no address of the peer, as on macOS after a reset."""

    accepted = 0

    def accept(self) -> tuple[socket.socket, Any]:
        sock, peer = super().accept()
        self.accepted += 1
        return sock, None if self.accepted == 1 else peer


@asynchronous
async def test_a_connection_without_a_peer_is_closed() -> None:
    server = Server()
    with PeerlessSocket() as sock:
        sock.setblocking(False)
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        server.listener = SocketListener(asyncio.get_running_loop(), sock, server.accept)
        server.listener.start()
        with socket.create_connection(server.listener.address) as first:
            first.setblocking(False)
            assert await read(first, 1) == b""
            assert server.clients == []
        second, there = await server.client()
        second.close()
        await until(lambda: there.ends == 1)
        server.listener.close()


@asynchronous
async def test_ipv6() -> None:
    if not socket.has_ipv6 or not _can_bind_ipv6():
        pytest.skip("no IPv6 here")
    async with listening("::1") as server:
        sock, there = await server.client()
        sock.sendall(b"hello")
        await until(lambda: there.data == b"hello")
        assert str(there.connection.local) == f"[::1]:{server.listener.address.port}"


def _can_bind_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@asynchronous
async def test_connections_wait_while_file_descriptors_are_short() -> None:
    """The listener neither spins nor fails, and accepts again when descriptors are free."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with listening() as server:
        first, _ = await server.client()
        sock = socket.socket()
        resource.setrlimit(resource.RLIMIT_NOFILE, (sock.fileno() + 1, hard))
        spare = _take_all_descriptors()
        try:
            sock.connect(server.listener.address)
            await asyncio.sleep(0.05)
            assert len(server.clients) == 1
        finally:
            for descriptor in spare:
                os.close(descriptor)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        await until(lambda: len(server.clients) == 2)
        first.close()
        sock.close()


def _take_all_descriptors() -> Sequence[int]:
    taken = []
    try:
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return taken


@asynchronous
async def test_a_connection_that_cannot_be_sent_to_holds_up_no_other(caplog: pytest.LogCaptureFixture) -> None:
    async with listening() as server:
        (first, broken), (second, whole) = await server.client(), await server.client()
        unreadable = create_autospec(File, instance=True)
        unreadable.read_cached.side_effect = ZeroDivisionError
        broken.connection.send([FileSlice(unreadable, 0, 4)])
        whole.connection.send([b"sent"])
        await until(lambda: broken.ends == 1)
        await asyncio.sleep(0)
        assert second.recv(10) == b"sent"
        assert "its replies cannot be sent" in caplog.text
        first.close()
        second.close()
