"""Commands run inside the test process, against the session's broker."""

import json
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner, Result

from ottla.cli.app import app

if TYPE_CHECKING:
    from ottla.testing.embedded import EmbeddedBroker


class Cli:
    def __init__(self, bootstrap_server: str) -> None:
        self.bootstrap_server = bootstrap_server

    def __call__(self, *arguments: str, stdin: str | bytes | None = None) -> Result:
        """Run a command, whatever comes of it; only a mistake in Ottla raises."""
        runner = CliRunner(env={"OTTLA_BOOTSTRAP_SERVER": self.bootstrap_server})
        return runner.invoke(app, list(arguments), input=stdin, prog_name="ottla", catch_exceptions=False)

    def ok(self, *arguments: str, stdin: str | bytes | None = None) -> str:
        result = self(*arguments, stdin=stdin)
        assert result.exit_code == 0, result.output
        return result.stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self.ok(*arguments, "--json"))

    def fails(self, *arguments: str, stdin: str | bytes | None = None) -> str:
        """The one sentence a failing command leaves on standard error."""
        result = self(*arguments, stdin=stdin)
        assert result.exit_code == 1, result.output
        lines = result.stderr.splitlines()
        assert len(lines) == 1, lines
        return lines[0]

    def refuses(self, *arguments: str) -> str:
        """What a command that is used wrongly says, joined to one line."""
        result = self(*arguments)
        assert result.exit_code == 2, result.output
        return " ".join(result.stderr.split())


@pytest.fixture
def cli(ottla_broker: "EmbeddedBroker") -> Cli:
    return Cli(ottla_broker.bootstrap_servers)


@pytest.fixture
def unique() -> Callable[[str], str]:
    """Names that no other test uses, since all share one broker."""
    suffix = uuid.uuid4().hex[:8]
    return lambda name: f"{name}-{suffix}"


@pytest.fixture
def topic(cli: Cli, unique: Callable[[str], str]) -> str:
    """A topic with three partitions."""
    name = unique("clicks")
    cli.ok("topics", "create", name, "--partitions", "3")
    return name
