import io
import sys

import pytest

from ottla.cli import progress
from ottla.cli.output import human_bytes
from ottla.cli.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (99_600, "100 kB"), (20_000_000, "20.0 MB"), (2.5e12, "2.5 TB")],
)
def test_sizes_for_people(size: float, text: str) -> None:
    assert human_bytes(size) == text


def test_a_terminal_shows_count_and_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "FIRST_AFTER_SECONDS", 0.0)
    line = Progress(shown=True)
    for _ in range(1024):
        line.add(100)
    assert "records/s" in terminal.getvalue()
    line.clear()
    assert terminal.getvalue().endswith("\r\x1b[K")


@pytest.mark.parametrize("shown", [True, False])
def test_nothing_elsewhere(monkeypatch: pytest.MonkeyPatch, shown: bool) -> None:
    stream = io.StringIO() if shown else Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "FIRST_AFTER_SECONDS", 0.0)
    line = Progress(shown=shown)
    for _ in range(1024):
        line.add(100)
    line.clear()
    assert stream.getvalue() == ""
