"""A broker as a process of its own, for tests that stop, kill and restart it."""

import contextlib
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from ottla.server.watchdog import HELD

READY_LINE = "Ottla is ready:"
START_TIMEOUT = 120.0
STOP_TIMEOUT = 120.0

_RANDOM = random.SystemRandom()
"""Not the one that tests give a seed, lest two processes draw the same."""


def free_port() -> int:
    """A port that was free a moment ago. A restarted broker must come back on the address its clients know.

    Below those that Linux gives to outgoing connections: one of them may be taken before it is listened on, even by who
    tries to connect to it.
    """
    while True:
        port = _RANDOM.randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class BrokerProcess:
    """`ottla serve` on a data directory and a port that stay the same across restarts."""

    def __init__(self, data_dir: Path, settings: Mapping[str, str] | None = None) -> None:
        self.data_dir = data_dir
        self.settings = dict(settings or {})
        self.port = free_port()
        self.log_path = data_dir.with_name(data_dir.name + ".log")
        self._process: subprocess.Popen[bytes] | None = None
        self._logged_before = 0
        """How much was logged before this life of the broker began."""

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        listen = ["--data-dir", str(self.data_dir), "--listen", self.bootstrap_servers]
        settings = [argument for key, value in self.settings.items() for argument in ("--set", f"{key}={value}")]
        return [sys.executable, "-m", "ottla", "serve", *listen, *settings]

    def start(self) -> None:
        """Returns when the broker says it is ready."""
        self.launch()
        self.wait_until_ready()

    def launch(self) -> None:
        with self.log_path.open("ab") as log:
            self._logged_before = log.tell()
            self._process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        while not self._said_ready(self._logged_before):
            assert self._process is not None, "the broker is not running"
            if self._process.poll() is not None:
                raise AssertionError(f"the broker ended with {self._process.returncode} at start:\n{self.log()}")
            if time.monotonic() >= deadline:
                self.kill()
                raise AssertionError(f"the broker was not ready within {START_TIMEOUT} s:\n{self.log()}")
            time.sleep(0.01)

    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _said_ready(self, position: int) -> bool:
        with self.log_path.open("rb") as log:
            log.seek(position)
            return any(line.startswith(READY_LINE.encode()) for line in log)

    def kill(self) -> None:
        """SIGKILL: no warning, no clean-up. A process that has already ended is fine."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(STOP_TIMEOUT)
            self._process = None

    def pause(self) -> None:
        """As a machine does that is suspended, or a collector that takes its time."""
        assert self._process is not None, "the broker is not running"
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None, "the broker is not running"
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """SIGTERM, the controlled shutdown, which must end with exit code 0."""
        assert self._process is not None, "the broker is not running"
        self._process.send_signal(signal.SIGTERM)
        exit_code = self._process.wait(STOP_TIMEOUT)
        self._process = None
        assert exit_code == 0, f"a controlled shutdown ended with {exit_code}:\n{self.log()}"

    def restart(self) -> None:
        self.stop()
        self.start()

    def log(self) -> str:
        """Everything the broker printed, over all its lives."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def holds(self) -> list[str]:
        """What the watchdog logged about requests and tasks that held the event loop too long."""
        return [line for line in self.log().splitlines() if HELD in line]
