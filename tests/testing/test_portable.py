"""The embedded broker on a system without the calls of Linux, as far as Linux can pretend to be one."""

import os
import subprocess
import sys
from pathlib import Path

RECORDS = 24
"""Together larger than the tail of a file that counts as in memory."""


def run(data_dir: Path, portable: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OTTLA_PORTABLE": portable}
    command = [sys.executable, "-m", "tests.testing.without_linux", str(data_dir), str(RECORDS)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=100)


def test_a_broker_needs_nothing_that_only_linux_has(tmp_path: Path) -> None:
    done = run(tmp_path, "1")
    assert done.stdout == f"opened [], consumed {RECORDS} and {RECORDS}\n", done.stderr


def test_the_forms_of_linux_would_be_noticed(tmp_path: Path) -> None:
    """The test above can fail: without the variable, the process lacks the calls that Ottla chooses on Linux."""
    done = run(tmp_path, "0")
    assert done.returncode == 1
    assert "AttributeError: module 'socket' has no attribute 'MSG_MORE'" in done.stderr
