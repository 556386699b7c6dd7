"""`ottla serve` as a process, for tests that measure its memory, kill it, or remove its disk."""

import os
import queue
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

READY = "Ottla is ready: PLAINTEXT://"
TIMEOUT = 120.0


def command(data_dir: Path, settings: Mapping[str, str] | None = None) -> list[str]:
    options = [argument for key, value in (settings or {}).items() for argument in ("--set", f"{key}={value}")]
    serve = [sys.executable, "-m", "ottla", "serve"]
    return [*serve, "--data-dir", str(data_dir), "--listen", "127.0.0.1:0", *options]


class BrokerProcess:
    """A running broker. `output` has the lines that it printed."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self.output: list[str] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        # Variables with this prefix would be settings of the broker.
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("KAFKA_")}
        self._process = subprocess.Popen(
            arguments,
            env={**inherited, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        line = self.wait_for_line(READY)
        self.bootstrap_servers = line.partition(READY)[2].partition(",")[0]

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.output.append(line.rstrip("\n"))
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def wait_for_line(self, text: str) -> str:
        deadline = time.monotonic() + TIMEOUT
        while True:
            line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            assert line is not None, f"the broker ended without saying {text!r}:\n" + "\n".join(self.output)
            if text in line:
                return line

    def memory(self) -> int:
        """Bytes of resident memory."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS:"))

    def open_files(self) -> int:
        return len(list(Path(f"/proc/{self._process.pid}/fd").iterdir()))

    def limit_file_size(self, size: int) -> None:
        """From now on no file may grow beyond this size, as if the disk were full."""
        resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(TIMEOUT)

    def terminate(self) -> int:
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(TIMEOUT)
        self._reader.join(TIMEOUT)
        return code


@contextmanager
def broker_process(data_dir: Path, settings: Mapping[str, str] | None = None) -> Iterator[BrokerProcess]:
    process = BrokerProcess(command(data_dir, settings))
    try:
        yield process
    finally:
        process.kill()
        print("\n".join(process.output))
