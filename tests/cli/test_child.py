"""A child that ends with its parent, on both forms of the system calls."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.cli.child import child_command
from tests.cli.process_tree import eventually, is_alive

PARENT = """
import subprocess, sys
from ottla.cli.child import child_command
child = subprocess.Popen(child_command(["exec", sys.executable, "-c", sys.argv[1]]))
print(child.pid, flush=True)
child.wait()
"""
CHILD = "import time; print('child runs', flush=True); time.sleep(600)"


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def form(monkeypatch: pytest.MonkeyPatch, portable: bool) -> None:
    """The form that processes started from now on use."""
    if portable:
        monkeypatch.setenv("OTTLA_PORTABLE", "1")
    else:
        monkeypatch.delenv("OTTLA_PORTABLE", raising=False)


@pytest.mark.parametrize("portable", [False, True], ids=["linux", "portable"])
def test_a_child_ends_when_its_parent_is_killed(monkeypatch: pytest.MonkeyPatch, portable: bool) -> None:
    form(monkeypatch, portable)
    with subprocess.Popen([sys.executable, "-c", PARENT, CHILD], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert parent.stdout.readline() == "child runs\n"
        watchers = children(child)
        assert len(watchers) == portable
        parent.kill()
        parent.wait()
        for pid in (child, *watchers):
            eventually(lambda pid=pid: not is_alive(pid), f"process {pid} ends with its parent")  # type: ignore[misc]
        assert parent.stdout.read() == ""


@pytest.mark.parametrize("portable", [False, True], ids=["linux", "portable"])
def test_nothing_is_left_of_a_child_that_is_stopped(monkeypatch: pytest.MonkeyPatch, portable: bool) -> None:
    form(monkeypatch, portable)
    command = child_command(["exec", sys.executable, "-c", CHILD])
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "child runs\n"
        watchers = children(child.pid)
        child.terminate()
        assert child.wait(60) == -signal.SIGTERM
        assert child.stdout.read() == ""
    for pid in watchers:
        eventually(lambda pid=pid: not is_alive(pid), f"watcher {pid} ends")  # type: ignore[misc]


def test_a_child_whose_parent_is_gone_does_not_start() -> None:
    other = subprocess.Popen([sys.executable, "-c", ""])
    other.wait()
    command = [sys.executable, "-m", "ottla.cli.child", str(other.pid), "exec", sys.executable, "-c", CHILD]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.stdout == ""
    assert done.returncode in (1, -signal.SIGTERM)  # The child or its watcher notices first.
