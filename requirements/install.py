"""`python requirements/install.py PART`: installs a part of Ottla into `.venv`, from its lock file, and shows progress.

Make calls this file with the Python of the system, so it uses the standard library only.
"""

from __future__ import annotations

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - the reason for this file to be readable by an older Python
    sys.exit("Ottla needs Python 3.11 or newer; run make PYTHON=/path/to/python3.11")

import os
import re
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

PARTS = ("run", "spark", "dev")
"""Each part contains those before it, so its stamp stands for theirs too."""
CONTENTS = {
    "run": "the broker and its commands",
    "spark": "Spark, Java and the ZooKeeper client; Spark is large",
    "dev": "everything: Spark, other Kafka clients, the checks and the test tools",
}
TICK_SECONDS = 0.2
HEARTBEAT_SECONDS = 15.0
"""Where a line cannot be rewritten, a long step prints a new line this often."""
WIDTH = 79

_COLLECTING = re.compile(r"Collecting ([\w.-]+)==(\S+)")
_DOWNLOADING = re.compile(r"Downloading \S+ \(([\d.]+ \w+)\)")


def locked_packages(lock: str) -> list[str]:
    return re.findall(r"^([\w.-]+)==", lock, re.MULTILINE)


class Steps:
    """Reads pip's output, line by line, and knows which step of how many pip is at."""

    def __init__(self, packages: int) -> None:
        self.packages = packages
        self.fetched = 0
        self.unpacks = False
        self._package = ""
        self._size = ""
        self._builds = ""
        """The package that pip builds because there is no wheel of it."""

    def read(self, line: str) -> bool:
        """Returns whether the line began a new step."""
        text = line.strip()
        if text.startswith("Ignoring "):
            self.packages -= 1  # A package for another system or another Python.
        elif text.startswith("Requirement already satisfied: "):
            self.fetched += 1
        elif found := _COLLECTING.match(text):
            self.fetched += 1
            self._package, self._size = " ".join(found.groups()), ""
        elif found := _DOWNLOADING.match(text):
            self._size = f" ({found.group(1)})"
            return True
        elif text.startswith("Using cached "):
            return True
        elif text.startswith("Building wheel for "):
            self._builds = text.split()[3]
            return True
        elif text.startswith("Installing collected packages: "):
            self.unpacks = True
            self.packages = text.count(",") + 1
            return True
        return False

    def describe(self, unpacked: int = 0) -> str:
        if self.unpacks:
            return f"unpacking {min(unpacked, self.packages)} of {self.packages} packages"
        if self._builds:
            return f"building {self._builds}"
        if not self._package:
            return "looking for packages"
        return f"fetching {self.fetched} of {self.packages}: {self._package}{self._size}"


class Progress:
    """One moving line on a terminal, plain lines elsewhere."""

    def __init__(self) -> None:
        self._moves = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._began = self._said = time.monotonic()
        self._lock = threading.Lock()

    def step(self, text: str) -> None:
        """A new step has begun."""
        if self._moves:
            self.tick(text)
        else:
            self._print(text)

    def tick(self, text: str) -> None:
        """The same step goes on."""
        if self._moves:
            with self._lock:
                print(f"\r{self._line(text):<{WIDTH}.{WIDTH}}", end="", flush=True)
        elif time.monotonic() >= self._said + HEARTBEAT_SECONDS:
            self._print(text)

    def end(self, text: str) -> None:
        """The last step is done. On a terminal, the padding erases the rest of the line before."""
        with self._lock:
            print(f"\r{self._line(text):<{WIDTH}}" if self._moves else self._line(text), flush=True)

    def clear(self) -> None:
        if self._moves:
            print("\r" + " " * WIDTH + "\r", end="", flush=True)

    def _print(self, text: str) -> None:
        self._said = time.monotonic()
        print(self._line(text), flush=True)

    def _line(self, text: str) -> str:
        return f"  {time.monotonic() - self._began:3.0f} s  {text}"


@contextmanager
def _ticking(progress: Progress, steps: Steps, site_packages: Path) -> Iterator[None]:
    before = _installed(site_packages)
    done = threading.Event()

    def tick() -> None:
        while not done.wait(TICK_SECONDS):
            progress.tick(steps.describe(_installed(site_packages) - before))

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _installed(site_packages: Path) -> int:
    return sum(1 for _ in site_packages.glob("*.dist-info"))


def install(root: Path, part: str) -> int:
    """Returns the exit code of the step that failed, or 0."""
    venv = root / ".venv"
    python = venv / "bin" / "python"
    print(f"Installing into .venv, once: {CONTENTS[part]}.", flush=True)
    progress = Progress()
    progress.step("preparing .venv")
    pip = [*_pip(venv, python, part), "install", "--disable-pip-version-check", "--no-input", "--progress-bar", "off"]
    lock = root / "requirements" / f"{part}.lock"
    steps = Steps(len(locked_packages(lock.read_text())))
    [site_packages] = venv.glob("lib/python*/site-packages")
    # A broker imports a small share of the modules, which Python compiles at the first import.
    compiling = ["--no-compile"] if part == "run" else []
    with _ticking(progress, steps, site_packages):
        code = _run([*pip, *compiling, "--require-hashes", "-r", str(lock)], root, progress, steps)
    if code == 0:
        progress.step("linking this checkout")
        code = _run([*pip, "--no-deps", "--no-build-isolation", "-e", "."], root, progress, Steps(1))
    if code == 0:
        subprocess.run([str(python), "-m", "compileall", "-q", "src"], cwd=root, check=True)
        for contained in PARTS[: PARTS.index(part) + 1]:
            (venv / f".{contained}").touch()
        progress.end("installed")
    return code


def _pip(venv: Path, python: Path, part: str) -> list[str]:
    """Create the virtual environment if there is none, and return the command that installs into it.

    A pip of its own takes as long to install as the broker does, so `run` borrows the pip of the system if that pip can
    install into another environment.
    """
    own = [str(python), "-m", "pip"]
    borrowed = [sys.executable, "-m", "pip", "--python", str(python)]
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    if _works(own):
        return own
    if part == "run" and _works(borrowed):
        return borrowed
    if not _works([str(python), "-m", "ensurepip"]):
        sys.exit(
            "This Python cannot install pip into .venv; install its ensurepip (python3-venv on Debian and Ubuntu)."
        )
    return own


def _works(command: list[str]) -> bool:
    """Whether the command, a form of pip or its installer, runs here."""
    argument = "--default-pip" if command[-1] == "ensurepip" else "--version"
    return subprocess.run([*command, argument], capture_output=True).returncode == 0


def _run(command: Iterable[str], root: Path, progress: Progress, steps: Steps) -> int:
    """Run pip. Its output is shown only if it fails."""
    process = subprocess.Popen(
        list(command), cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    output = []
    for line in process.stdout:
        output.append(line)
        if steps.read(line) and steps.packages > 1:
            progress.step(steps.describe())
    code = process.wait()
    if code:
        progress.clear()
        print("".join(output), end="", file=sys.stderr)
        print("The installation failed; pip's output is above.", file=sys.stderr)
    return code


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0] not in PARTS:
        print(f"usage: python requirements/install.py {'|'.join(PARTS)}", file=sys.stderr)
        return 2
    return install(Path(__file__).resolve().parent.parent, arguments[0])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
