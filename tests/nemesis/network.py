"""The network between the processes of a cluster. Links can be cut.

Every connection goes through a port of this process, which forwards data. While a link is cut, it holds the data
without notice, like a pulled cable. The held data arrives late when the link is restored.
"""

import asyncio
import struct
import threading
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

_CLIENT_ID = struct.Struct(">ihhih")
"""The start of a request: its size, API key and version, correlation id, and the length of the client id."""


class Way(NamedTuple):
    """From the connecting host to the listening host."""

    source: str
    target: str


def broker(number: int) -> str:
    return f"broker-{number}"


class Network:
    """Runs in its own thread, so that any thread can inject faults."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network")
        self._whole: dict[Way, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread.start()

    def close(self) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def listen(self, target: str, port: int, source: str | None = None) -> int:
        """Open a port that forwards to another one. Without a source, the first request names the client."""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            try:
                await self._join(reader, writer, target, port, source)
            finally:
                self._tasks.discard(task)

        server = self._run(asyncio.start_server(serve, "127.0.0.1", 0))
        own: int = server.sockets[0].getsockname()[1]
        return own

    def cut(self, ways: Iterable[Way]) -> None:
        self._run(self._set(ways, whole=False))

    def mend(self, ways: Iterable[Way]) -> None:
        self._run(self._set(ways, whole=True))

    def mend_all(self) -> None:
        self.mend(tuple(self._whole))

    async def _set(self, ways: Iterable[Way], *, whole: bool) -> None:
        for way in ways:
            gate = self._gate(way)
            gate.set() if whole else gate.clear()

    def _gate(self, way: Way) -> asyncio.Event:
        if way not in self._whole:
            self._whole[way] = asyncio.Event()
            self._whole[way].set()
        return self._whole[way]

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)

    async def _join(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: str, port: int, source: str | None
    ) -> None:
        """Forward in both directions until one side closes."""
        other: asyncio.StreamWriter | None = None
        try:
            first = b"" if source is not None else await reader.readexactly(_CLIENT_ID.size)
            if source is None:
                length = _CLIENT_ID.unpack(first)[-1]
                first += await reader.readexactly(max(0, length))
                source = _broker_named(first[_CLIENT_ID.size :].decode())
            gate = self._gate(Way(source, target))
            await gate.wait()
            other_reader, other = await asyncio.open_connection("127.0.0.1", port)
            other.write(first)
            async with asyncio.TaskGroup() as both:
                both.create_task(_pass_on(reader, other, gate.wait))
                both.create_task(_pass_on(other_reader, writer, gate.wait))
        except* (OSError, EOFError, _EndedError):
            pass
        finally:
            for end in (writer, other):
                if end is not None:
                    end.transport.abort()


class _EndedError(Exception):
    """One side has closed its connection."""


async def _pass_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: Callable[[], Coroutine[Any, Any, Any]]
) -> None:
    while chunk := await reader.read(1 << 16):
        await gate()
        writer.write(chunk)
        await writer.drain()
    raise _EndedError


def _broker_named(client_id: str) -> str:
    """`broker-2-fetcher` belongs to broker-2."""
    return "-".join(client_id.split("-")[:2])
