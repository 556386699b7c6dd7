"""Runs a broker in a thread of this process, on a free port, with its own data directory."""

from __future__ import annotations

import contextlib
import errno
import itertools
import logging
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ottla.config.broker import BrokerConfig
from ottla.config.listeners import broker_listeners
from ottla.server.broker import StartupError
from ottla.testing.broker_run import BrokerRun
from ottla.testing.clock import TravelClock
from ottla.testing.fault_handlers import handlers_with
from ottla.testing.faults import Faults
from ottla.testing.tools import Tools

_LOG_LINES = 500
_FORMAT = logging.Formatter("[%(asctime)s] %(levelname)s %(message)s (%(name)s)")
_PORT_SECONDS = 10.0
"""How long a restart waits for its port: another program may use it for a moment as the port of a client."""
_THREAD = "ottla-broker-"
_numbers = itertools.count(1)


class EmbeddedBroker(Tools):
    """A running broker. Pass `bootstrap_servers` to a Kafka client."""

    def __init__(
        self,
        data_dir: Path,
        settings: Mapping[str, str],
        clock: TravelClock | None = None,
        shared_faults: Sequence[Faults] = (),
    ) -> None:
        super().__init__(clock or TravelClock())
        self.data_dir = data_dir
        self.faults = Faults()
        """Errors, delays and dropped connections that clients shall see."""
        self._settings = {"log.dirs": str(data_dir), **settings}
        self._handlers = handlers_with((self.faults, *shared_faults))
        self._name = f"{_THREAD}{next(_numbers)}"
        self._log = _LogTail(self._name)
        self._run: BrokerRun | None = None

    def start(self) -> None:
        """Start the broker. After `stop` or `kill` it starts on the same port and with the same data."""
        if self._run is not None:
            return
        logger = logging.getLogger("ottla")
        logger.addHandler(self._log)
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.INFO)
        try:
            run = self._start_on_free_port()
        except BaseException:
            logger.removeHandler(self._log)
            raise
        self._run = run
        listeners = broker_listeners(BrokerConfig(self._settings))
        self._settings["listeners"] = ",".join(
            str(each._replace(port=run.addresses[each.name].port)) for each in listeners
        )
        self.bootstrap_servers = ",".join(str(address) for address in run.addresses.values())

    def stop(self) -> None:
        """Stop the broker cleanly. The data stays."""
        run = self._take_run()
        if run is not None:
            run.stop()

    def kill(self) -> None:
        """End the broker like a process that gets SIGKILL: it syncs nothing, and does not hand over its leadership. Its
        port is closed, the data stays."""
        if self._settings.get("zookeeper.connect"):
            raise ValueError("kill is not supported for a broker on ZooKeeper")
        run = self._take_run()
        if run is not None:
            run.kill()

    def restart(self) -> None:
        """Start the broker again, on the same port and with the same data. Stop it cleanly first if it runs."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Freeze the broker, like SIGSTOP: clients can connect and send, and get no answer until `resume`."""
        if self._run is None:
            raise RuntimeError("the broker does not run")
        self._run.pause()

    def resume(self) -> None:
        if self._run is not None:
            self._run.resume()

    def recover(self) -> None:
        """Remove all faults, and resume or start the broker if it does not run."""
        self.faults.clear()
        self.resume()
        self.start()

    @property
    def is_running(self) -> bool:
        return self._run is not None

    @property
    def is_paused(self) -> bool:
        return self._run is not None and self._run.is_paused

    def log(self) -> str:
        """The last lines the broker logged."""
        return "\n".join(self._log.lines)

    def _start_on_free_port(self) -> BrokerRun:
        deadline = time.monotonic() + (_PORT_SECONDS if self.bootstrap_servers else 0)
        while True:
            run = BrokerRun(self._name, self._settings, self.clock, self._handlers)
            try:
                run.start()
            except StartupError as error:
                if not _is_port_in_use(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
            else:
                return run

    def _take_run(self) -> BrokerRun | None:
        run, self._run = self._run, None
        logging.getLogger("ottla").removeHandler(self._log)
        return run


class _LogTail(logging.Handler):
    """Keeps the last lines of one broker. The worker threads of all brokers have the same names, so it has them all."""

    def __init__(self, thread: str) -> None:
        super().__init__()
        self.lines: deque[str] = deque(maxlen=_LOG_LINES)
        self._thread = thread
        self.setFormatter(_FORMAT)

    def emit(self, record: logging.LogRecord) -> None:
        if record.threadName == self._thread or not (record.threadName or "").startswith(_THREAD):
            self.lines.append(self.format(record))


def _is_port_in_use(error: StartupError) -> bool:
    return isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.EADDRINUSE


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
