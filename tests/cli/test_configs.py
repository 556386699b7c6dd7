from collections.abc import Callable

import pytest

from ottla.cli.configs import split_configs
from tests.cli.conftest import Cli


def test_alter_and_describe_a_topic(cli: Cli, topic: str) -> None:
    changes = "retention.ms=5000,cleanup.policy=[compact,delete]"
    assert cli.ok("configs", "alter", "--topic", topic, "--add-config", changes) == (
        f"Completed updating config for topic {topic}.\n"
    )
    described = {config["name"]: config["value"] for config in cli.json("configs", "describe", "--topic", topic)}
    assert described == {"cleanup.policy": "compact,delete", "retention.ms": "5000"}
    cli.ok("configs", "alter", "--topic", topic, "--delete-config", "retention.ms,cleanup.policy")
    assert cli.json("configs", "describe", "--topic", topic) == []


def test_describe_prints_the_lines_that_scripts_parse(cli: Cli, topic: str) -> None:
    cli.ok("configs", "alter", "--topic", topic, "--add-config", "retention.ms=5000")
    arguments = ["configs", "describe", "--entity-type", "topics", "--entity-name", topic]
    heading, line = cli.ok(*arguments).splitlines()
    assert heading == f"Dynamic configs for topic {topic} are:"
    assert line.startswith("  retention.ms=5000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=5000")
    heading, *lines = cli.ok(*arguments, "--all").splitlines()
    assert heading == f"All configs for topic {topic} are:"
    assert len(lines) > 20
    assert any(line.startswith("  cleanup.policy=delete sensitive=false") for line in lines)


def test_a_topic_without_changed_settings(cli: Cli, topic: str) -> None:
    result = cli("configs", "describe", "--topic", topic)
    assert result.exit_code == 0
    assert result.stdout == f"Dynamic configs for topic {topic} are:\n"
    assert result.stderr == f"Topic {topic} has no changed settings; --all shows all settings with defaults.\n"


def test_a_broker(cli: Cli) -> None:
    broker = str(cli.json("doctor")["brokers"][0]["broker"])
    configs = {config["name"]: config for config in cli.json("configs", "describe", "--broker", broker, "--all")}
    assert configs["num.partitions"]["value"] == "1"
    assert configs["node.id"]["read_only"] is True
    assert cli.fails("configs", "describe", "--broker", "4711") == (
        f"There is no broker '4711'; the cluster has {broker}."
    )


def test_what_is_refused(cli: Cli, topic: str, unique: Callable[[str], str]) -> None:
    assert "nope" in cli.fails("configs", "alter", "--topic", topic, "--add-config", "nope=1")
    assert "retention.ms" in cli.fails("configs", "alter", "--topic", topic, "--add-config", "retention.ms=soon")
    missing = unique("missing")
    assert cli.fails("configs", "describe", "--topic", missing).startswith(f"Topic '{missing}' does not exist")


def test_wrong_usage(cli: Cli) -> None:
    assert "name exactly one" in cli.refuses("configs", "describe")
    assert "name exactly one" in cli.refuses("configs", "describe", "--topic", "a", "--broker", "1")
    assert "name exactly one" in cli.refuses("configs", "describe", "--entity-type", "topics")
    assert "name exactly one" in cli.refuses("configs", "describe", "--topic", "a", "--entity-name", "b")
    assert "give --add-config" in cli.refuses("configs", "alter", "--topic", "a")
    assert "--add-config" in cli.refuses("configs", "alter", "--topic", "a", "--add-config", "novalue")


@pytest.mark.parametrize(
    ("texts", "parts"),
    [
        (["a=1,b=2", "c=3"], ["a=1", "b=2", "c=3"]),
        (["a=[x,y],b=2"], ["a=[x,y]", "b=2"]),
        (["a=1,"], ["a=1"]),
        (["a=x]y,b=2"], ["a=x]y", "b=2"]),
    ],
)
def test_lists_of_settings(texts: list[str], parts: list[str]) -> None:
    assert split_configs(texts) == parts
