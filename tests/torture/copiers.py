"""The copier processes. Each slot runs one process after the other."""

import contextlib
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

_STOP_TIMEOUT = 10.0

Command = Callable[["Slot"], list[str]]
"""The command with the slot's current transactional id."""


class Slot:
    """A transactional id and its current process. The output of all its processes is in one file."""

    def __init__(self, number: int, name: str, command: Command, log: Path) -> None:
        self.number = number
        self.name = name
        self.lives = 0
        self._command = command
        self._log = log
        self._identity = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._twins: list[subprocess.Popen[bytes]] = []

    @property
    def transactional_id(self) -> str:
        return f"{self.name}-{self._identity}"

    def start(self) -> None:
        command = self._command(self)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        self.lives += 1

    def start_twin(self) -> None:
        """Start a successor with the same id, without stopping the current process."""
        if self._process is not None:
            self._twins.append(self._process)
        self.start()

    def take_new_identity(self) -> None:
        self._identity += 1

    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def ended(self) -> bool:
        """Whether the process has ended by itself."""
        return self._process is not None and self._process.poll() is not None

    def kill(self) -> None:
        """SIGKILL for the process and its twins, also if they are stopped."""
        for process in [*self._twins, *([self._process] if self._process else [])]:
            process.kill()
            process.wait()
        self._twins, self._process = [], None

    def leave(self) -> None:
        """SIGTERM, then SIGKILL if the process does not end."""
        self.terminate()
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_TIMEOUT)
        self.kill()

    def terminate(self) -> None:
        self._signal(signal.SIGCONT)
        self._signal(signal.SIGTERM)

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def log(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""
