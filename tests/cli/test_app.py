import pytest
from typer.testing import CliRunner

from ottla.cli.app import FAMILIES, app

COMMANDS = [
    *(("topics", name) for name in ("create", "list", "describe", "watch", "alter", "delete", "delete-records")),
    *(("groups", name) for name in ("list", "describe", "watch", "delete", "reset-offsets", "delete-offsets")),
    *(("configs", name) for name in ("describe", "alter")),
    ("produce",),
    ("consume",),
    ("doctor",),
]
SPARK_COMMANDS = [
    *(("pipeline", name) for name in ("run", "list", "describe", "status", "generate", "report", "demo")),
    ("sql",),
]
WITHOUT_A_BROKER = [("cluster", "up"), ("zookeeper",), ("completion",)]


@pytest.mark.parametrize("command", [*COMMANDS, *SPARK_COMMANDS, *WITHOUT_A_BROKER], ids=" ".join)
def test_every_command_explains_itself_with_an_example(command: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [*command, "--help"])
    assert result.exit_code == 0
    assert f"ottla {' '.join(command)}" in result.stdout.partition("Example")[2]


@pytest.mark.parametrize("command", [(), ("topics",), *COMMANDS, *SPARK_COMMANDS, *WITHOUT_A_BROKER], ids=" ".join)
def test_h_is_short_for_help(command: tuple[str, ...]) -> None:
    short, long = (CliRunner().invoke(app, [*command, option]) for option in ("-h", "--help"))
    assert (short.exit_code, short.stdout) == (0, long.stdout)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_commands_share_their_options(command: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [*command, "--help"])
    for option in ("--bootstrap-server", "--json", "-X"):
        assert option in result.stdout


def test_the_list_of_commands_is_complete() -> None:
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    assert {command[0] for command in [*COMMANDS, *SPARK_COMMANDS, *WITHOUT_A_BROKER]} == set(FAMILIES)
    for name, summary in FAMILIES.items():
        assert name in result.stdout
        assert summary.split(",")[0] in result.stdout
    assert "serve" in result.stdout


def test_version() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.stdout.startswith("ottla ")


@pytest.mark.parametrize("arguments", [["topcis"], ["topics", "creat"], ["topics", "list", "--nope"], ["produce"]])
def test_wrong_usage_exits_with_2(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "--help" in result.stderr


def test_a_misspelt_command_is_corrected() -> None:
    assert "Did you mean 'topics'?" in CliRunner().invoke(app, ["topcis"]).stderr
