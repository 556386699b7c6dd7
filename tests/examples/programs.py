"""Run an example as a user does: `python examples/<name>.py`, in a process of its own."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "delivery-semantics.md"
TIMEOUT = 120.0


def run(name: str, *arguments: str) -> str:
    """What it prints. It must end well, and have nothing to complain about."""
    command = [sys.executable, str(ROOT / "examples" / f"{name}.py"), *arguments]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout
