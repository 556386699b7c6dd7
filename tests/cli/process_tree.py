"""A command that has children: what it says, and what is left of it."""

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

OTTLA = [sys.executable, "-m", "ottla"]
DEADLINE = 120.0


def eventually(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, f"not within {DEADLINE:g} s: {what}"
        time.sleep(0.02)


def ended(process: "subprocess.Popen[str] | subprocess.Popen[bytes]") -> int:
    """The exit code. A process that does not end by itself is terminated, and killed if it ignores that too."""
    for end in (process.terminate, process.kill):
        try:
            return process.wait(DEADLINE / 4)
        except subprocess.TimeoutExpired:
            end()
    return process.wait(DEADLINE)


def is_alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


class Command:
    def __init__(self, arguments: Sequence[str]) -> None:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("KAFKA_")}
        self.output: list[str] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._process = subprocess.Popen(
            [*OTTLA, *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.output.append(line.rstrip("\n"))
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def wait_for_line(self, text: str) -> str:
        """The first line with this text that was not waited for before; what comes before it is skipped."""
        deadline = time.monotonic() + DEADLINE
        while True:
            line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            assert line is not None, f"it ended without saying {text!r}:\n" + "\n".join(self.output)
            if text in line:
                return line

    @property
    def pid(self) -> int:
        return self._process.pid

    def children(self) -> list[int]:
        return [int(pid) for pid in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()]

    def child(self, mark: str) -> int:
        """The child whose command line has this text."""
        [pid] = [pid for pid in self.children() if mark in Path(f"/proc/{pid}/cmdline").read_text()]
        return pid

    def end(self, number: signal.Signals) -> int:
        self._process.send_signal(number)
        code = self._process.wait(DEADLINE)
        self._reader.join(DEADLINE)
        return code

    def wait(self) -> int:
        code = self._process.wait(DEADLINE)
        self._reader.join(DEADLINE)
        return code


@contextmanager
def running(*arguments: str) -> Iterator[Command]:
    """Nothing may be left of it, however it ends."""
    command = Command(arguments)
    try:
        yield command
    finally:
        children = command.children() if is_alive(command.pid) else []
        if is_alive(command.pid):
            command.end(signal.SIGKILL)
        print("\n".join(command.output))
    for pid in children:
        eventually(lambda pid=pid: not is_alive(pid), f"process {pid} ends with its parent")  # type: ignore[misc]
