"""Runs a broker in a thread of this process, on a free port, with its own data directory."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path

from ottla.config.broker import BrokerConfig
from ottla.server.broker import BrokerServer

_LOG_LINES = 500
_FORMAT = logging.Formatter("[%(asctime)s] %(levelname)s %(message)s (%(name)s)")


class EmbeddedBroker:
    """A running broker. Pass `bootstrap_servers` to a Kafka client."""

    def __init__(self, data_dir: Path, settings: Mapping[str, str]) -> None:
        self.data_dir = data_dir
        self.bootstrap_servers = ""
        self._settings = settings
        self._log = _LogTail()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="ottla-broker", daemon=True)

    def start(self) -> None:
        logger = logging.getLogger("ottla")
        logger.addHandler(self._log)
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.INFO)
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            self._finish()

    def stop(self) -> None:
        if self._loop is not None and self._stop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._finish()

    def _finish(self) -> None:
        self._thread.join()
        logging.getLogger("ottla").removeHandler(self._log)
        if self._failure is not None:
            raise self._failure

    def log(self) -> str:
        """The last lines the broker logged."""
        return "\n".join(self._log.lines)

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=_new_event_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:
            self._failure = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        server = BrokerServer(BrokerConfig({"log.dirs": str(self.data_dir), **self._settings}))
        await server.start()
        self.bootstrap_servers = ",".join(str(address) for address in server.addresses.values())
        server.watchdog.start()
        self._ready.set()
        await self._stop.wait()
        server.watchdog.stop()
        await server.stop()


class _LogTail(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: deque[str] = deque(maxlen=_LOG_LINES)
        self.setFormatter(_FORMAT)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


def _new_event_loop() -> asyncio.AbstractEventLoop:
    from ottla.server.event_loop import new_event_loop

    return new_event_loop()


@contextlib.contextmanager
def embedded(
    settings: Mapping[str, str] | None = None, *, data_dir: str | Path | None = None
) -> Iterator[EmbeddedBroker]:
    """Run a broker for the length of a `with` block.

    `settings` are Kafka's keys, as in server.properties. Without `data_dir`, the data is deleted afterwards. With
    `data_dir`, the data stays, and the next broker on the same directory uses it.
    """
    chosen = {"listeners": "PLAINTEXT://127.0.0.1:0", **(settings or {})}
    with contextlib.ExitStack() as stack:
        if data_dir is None:
            data_dir = stack.enter_context(tempfile.TemporaryDirectory(prefix="ottla-"))
        broker = EmbeddedBroker(Path(data_dir), chosen)
        broker.start()
        try:
            yield broker
        finally:
            broker.stop()
