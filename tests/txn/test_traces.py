from pathlib import Path

import pytest

from tests.txn.script import TRACES, run


@pytest.mark.parametrize("path", sorted(TRACES.glob("*.txt")), ids=lambda path: path.stem)
def test_trace(path: Path) -> None:
    script = path.read_text()
    assert run(script) == script


def test_a_trace_without_its_effects_is_not_accepted() -> None:
    script = (TRACES / "protocol_2.txt").read_text()
    commands = "\n".join(line for line in script.splitlines() if not line.startswith("  ")) + "\n"
    assert run(commands) == script != commands
