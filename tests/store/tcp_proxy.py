"""A TCP proxy that stands between a store and its server and can hold or cut what passes."""

import asyncio


class TcpProxy:
    def __init__(self, target: str) -> None:
        self._target = target
        self._server: asyncio.Server | None = None
        self._pairs: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.requests = asyncio.Event()
        """Cleared: what clients send stays here, and is lost if the connection is cut."""
        self.replies = asyncio.Event()
        self.accepting = True
        self.connections = 0
        self.requested = bytearray()
        """What clients have sent so far, of which the server has what was not held."""
        self.requests.set()
        self.replies.set()

    async def __aenter__(self) -> "TcpProxy":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.accepting = False
        self.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def address(self) -> str:
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()
        return f"{host}:{port}"

    def cut(self) -> None:
        """Reset every connection; what is held here is lost."""
        for pair in self._pairs:
            for writer in pair:
                writer.transport.abort()
        for task in self._tasks:
            task.cancel()

    def pause(self) -> None:
        self.requests.clear()
        self.replies.clear()

    def resume(self) -> None:
        self.requests.set()
        self.replies.set()

    async def _serve(self, client_reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        if not self.accepting:
            client.transport.abort()
            return
        host, _, port = self._target.rpartition(":")
        try:
            server_reader, server = await asyncio.open_connection(host, int(port))
        except OSError:
            client.transport.abort()
            return
        self.connections += 1
        pair = (client, server)
        self._pairs.add(pair)
        for reader, writer, gate in (client_reader, server, self.requests), (server_reader, client, self.replies):
            task = asyncio.create_task(self._pass_on(reader, writer, gate))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            task.add_done_callback(lambda _: self._end(pair))

    def _end(self, pair: tuple[asyncio.StreamWriter, asyncio.StreamWriter]) -> None:
        self._pairs.discard(pair)
        for writer in pair:
            writer.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: asyncio.Event) -> None:
        try:
            while chunk := await reader.read(65536):
                if gate is self.requests:
                    self.requested += chunk
                await gate.wait()
                writer.write(chunk)
        except (OSError, asyncio.CancelledError):
            pass
