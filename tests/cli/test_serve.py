import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import ottla.server.main
from ottla.cli.app import app
from ottla.cli.serve import run

Call = tuple[Path | None, Path | None, str | None, dict[str, str]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    """What the server was started with, in place of starting it."""
    seen: list[Call] = []

    def serve(*arguments: Any, hints: bool) -> int:
        assert hints
        seen.append(arguments)
        return 7

    monkeypatch.setattr(ottla.server.main, "serve", serve)
    return seen


def test_nothing_is_required(calls: list[Call]) -> None:
    assert run([]) == 7
    assert calls == [(None, None, None, {})]


def test_all_arguments_reach_the_server(calls: list[Call], tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=3\n")
    options = ["--data-dir", "data", "--listen", "127.0.0.1:0", "--set", "a=1", "--set", "b=x=y"]
    assert run([str(file), *options]) == 7
    assert calls == [(file, Path("data"), "127.0.0.1:0", {"a": "1", "b": "x=y"})]


def test_the_command_tree_leads_to_the_same_place(calls: list[Call]) -> None:
    result = CliRunner().invoke(app, ["serve", "--set", "a=1", "--listen", "127.0.0.1:0"])
    assert result.exit_code == 7
    assert calls == [(None, None, "127.0.0.1:0", {"a": "1"})]


@pytest.mark.parametrize(
    "arguments", [["missing.properties"], ["--set", "novalue"], ["--nope"], ["--set", "=1"], ["--workers", "0"]]
)
def test_wrong_usage_exits_with_2(calls: list[Call], arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        run(arguments)
    assert stop.value.code == 2
    assert "usage: ottla serve" in capsys.readouterr().err
    assert calls == []


def test_starting_a_broker_does_not_wait_for_the_libraries_of_other_commands() -> None:
    program = """
import sys
sys.argv = ["ottla", "serve", "--help"]
from ottla.cli.main import main
try:
    main()
except SystemExit:
    pass
print(sorted({"typer", "click", "rich", "pydantic", "confluent_kafka"} & set(sys.modules)), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "ottla serve --data-dir" in done.stdout
    assert done.stderr == "[]\n"
