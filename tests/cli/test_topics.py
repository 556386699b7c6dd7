import json
import re
from collections.abc import Callable

import pytest

from tests.cli.conftest import Cli


def test_create_list_describe_alter_delete(cli: Cli, unique: Callable[[str], str]) -> None:
    name = unique("clicks")
    assert (
        cli.ok("topics", "create", name, "--partitions", "2", "--config", "retention.ms=1000")
        == f"Created topic {name}.\n"
    )
    assert name in cli.ok("topics", "list").splitlines()
    (description,) = cli.json("topics", "describe", name)
    assert description["configs"] == {"retention.ms": "1000"}
    assert [(entry["partition"], entry["earliest"], entry["latest"]) for entry in description["partitions"]] == [
        (0, 0, 0),
        (1, 0, 0),
    ]
    assert [entry["size"] for entry in description["partitions"]] == [0, 0]
    assert all(entry["leader"] in entry["isr"] == entry["replicas"] for entry in description["partitions"])
    assert cli.ok("topics", "alter", name, "--partitions", "3") == f"Topic {name} now has 3 partitions.\n"
    assert len(cli.json("topics", "describe", name)[0]["partitions"]) == 3
    assert cli.ok("topics", "delete", name) == f"Deleted topic {name}.\n"
    assert name not in cli.json("topics", "list")


def test_short_options(cli: Cli, unique: Callable[[str], str]) -> None:
    name = unique("short")
    cli.ok("topics", "create", name, "-p", "2", "-r", "1", "-c", "retention.ms=1000")
    (description,) = cli.json("topics", "describe", name)
    assert description["configs"] == {"retention.ms": "1000"}
    assert [len(entry["replicas"]) for entry in description["partitions"]] == [1, 1]
    cli.ok("topics", "alter", name, "-p", "3")
    cli.ok("produce", name, "-p", "2", stdin="a\n")
    cli.ok("topics", "delete-records", name, "-p", "2", "--before-offset", "latest")
    assert [entry["earliest"] for entry in cli.json("topics", "describe", name)[0]["partitions"]] == [0, 0, 1]


def test_sizes_left_out_are_the_brokers_choice(cli: Cli, unique: Callable[[str], str]) -> None:
    name = unique("default")
    cli.ok("topics", "create", name)
    assert len(cli.json("topics", "describe", name)[0]["partitions"]) == 1


def test_describe_prints_a_table(cli: Cli, topic: str) -> None:
    cli.ok("produce", topic, "--partition", "1", stdin="a\nb\n")
    cli.ok("configs", "alter", "--topic", topic, "--add-config", "retention.ms=5000000")
    result = cli("topics", "describe", "--topic", topic)
    heading, setting, columns, *rows = result.stdout.splitlines()
    assert re.fullmatch(rf"{topic}: 3 partitions, 1 replica each, 2 records, \d+ B \(id .{{22}}\)", heading)
    assert setting == "  retention.ms=5000000"
    assert columns.split() == ["PARTITION", "LEADER", "REPLICAS", "ISR", "EARLIEST", "LATEST", "RECORDS", "SIZE"]
    broker = rows[1].split()[1]
    assert rows[1].split()[:7] == ["1", broker, broker, broker, "0", "2", "2"]
    assert rows[0].endswith("0 B")
    assert result.stderr == ""


def test_watch_prints_a_line_for_each_reading(cli: Cli, topic: str) -> None:
    cli.ok("produce", topic, stdin="a\nb\n")
    first, second = cli.ok("topics", "watch", topic, "-n", "2", "-i", "0.1").splitlines()
    start = rf"\d\d\d\d-\S+Z topic={topic} records=2 bytes=\d+"
    end = "under_replicated=0 without_leader=0"
    assert re.fullmatch(f"{start} records_per_second=- bytes_per_second=- {end}", first)
    assert re.fullmatch(f"{start} records_per_second=0.0 bytes_per_second=0.0 {end}", second)
    (line,) = cli.ok("topics", "watch", "-n", "1", "--json", topic).splitlines()
    assert json.loads(line)["records"] == 2
    assert topic in cli.ok("topics", "watch", "-n", "1")


def test_describe_prints_kafkas_own_text(cli: Cli, topic: str) -> None:
    cli.ok("produce", topic, "--partition", "1", stdin="a\nb\n")
    heading, *partitions = cli.ok("topics", "describe", topic, "--kafka").splitlines()
    fields = dict(field.split(": ", 1) for field in heading.split("\t"))
    assert (fields["Topic"], fields["PartitionCount"], fields["ReplicationFactor"]) == (topic, "3", "1")
    assert len(fields["TopicId"]) == 22
    assert len(partitions) == 3
    fields = dict(field.split(": ", 1) for field in partitions[1].strip("\t").split("\t"))
    assert (fields["Topic"], fields["Partition"], fields["Earliest"], fields["Latest"]) == (topic, "1", "0", "2")
    assert int(fields["Size"]) > 60
    assert fields["Leader"] == fields["Replicas"] == fields["Isr"]


def test_describe_without_names_shows_all(cli: Cli, topic: str, unique: Callable[[str], str]) -> None:
    cli.ok("groups", "reset-offsets", unique("group"), "--topic", topic, "--to-earliest", "--execute")
    names = [description["topic"] for description in cli.json("topics", "describe")]
    assert {topic, "__consumer_offsets"} <= set(names)
    table = cli.ok("topics", "describe")
    assert f"{topic}: 3 partitions" in table
    assert "__consumer_offsets" not in table


def test_internal_topics_can_be_left_out(cli: Cli, topic: str, unique: Callable[[str], str]) -> None:
    cli.ok("produce", topic, stdin="a\n")
    cli.ok("consume", topic, "--from-beginning", "--max-messages", "1", "--group", unique("group"))
    assert "__consumer_offsets" in cli.json("topics", "list")
    assert "__consumer_offsets" not in cli.json("topics", "list", "--exclude-internal")


def test_existing_and_missing_topics(cli: Cli, topic: str, unique: Callable[[str], str]) -> None:
    missing = unique("missing")
    assert cli.fails("topics", "create", topic) == (
        f"Topic '{topic}' already exists; choose another name or pass --if-not-exists."
    )
    assert cli.ok("topics", "create", topic, "--if-not-exists") == ""
    for command in (["describe", missing], ["alter", missing, "--partitions", "2"], ["delete", missing]):
        assert cli.fails("topics", *command).startswith(f"Topic '{missing}' does not exist; see `ottla topics list`")
    assert cli.ok("topics", "delete", missing, "--if-exists") == ""


def test_kafkas_name_of_the_topic_option(cli: Cli, unique: Callable[[str], str]) -> None:
    name = unique("kafka")
    assert cli.ok("topics", "create", "--topic", name, "--partitions", "2") == f"Created topic {name}.\n"
    cli.ok("topics", "alter", f"--topic={name}", "--partitions", "3")
    assert len(cli.json("topics", "describe", "--topic", name)[0]["partitions"]) == 3
    assert cli.ok("topics", "delete", "--topic", name) == f"Deleted topic {name}.\n"


def test_several_topics_at_once(cli: Cli, topic: str, unique: Callable[[str], str]) -> None:
    first, second = unique("first"), unique("second")
    assert cli.json("topics", "create", first, second) == {"created": [first, second]}
    result = cli("topics", "delete", first, unique("missing"), second)
    assert result.exit_code == 1
    assert result.stdout == f"Deleted topic {first}.\nDeleted topic {second}.\n"


@pytest.mark.parametrize("name", ["a/b", "..", "x" * 250, "sp ace"])
def test_invalid_names(cli: Cli, name: str) -> None:
    assert cli.fails("topics", "create", name).startswith(f"'{name}' is not a valid topic name; use at most 249")


def test_an_empty_name(cli: Cli) -> None:
    for command in (["create", ""], ["describe", ""]):
        assert cli.fails("topics", *command).startswith("'' is not a valid topic name")


def test_the_brokers_own_words_are_passed_on(cli: Cli, topic: str, unique: Callable[[str], str]) -> None:
    assert "3 partition" in cli.fails("topics", "alter", topic, "--partitions", "2")
    assert "nope" in cli.fails("topics", "create", unique("bad"), "--config", "nope=1")
    assert "9" in cli.fails("topics", "create", unique("many"), "--replication-factor", "9").partition(":")[2]


def test_wrong_usage(cli: Cli) -> None:
    assert "'novalue' is not of the form KEY=VALUE" in cli.refuses("topics", "create", "x", "--config", "novalue")
    assert "--partitions" in cli.refuses("topics", "create", "x", "--partitions", "0")
    assert "--partitions" in cli.refuses("topics", "alter", "x")
    assert "-X" in cli.refuses("topics", "list", "-X", "no.such.setting=1")
    assert "--before-offset" in cli.refuses("topics", "delete-records", "x", "--before-offset", "-3")


def test_delete_records(cli: Cli, topic: str) -> None:
    cli.ok("produce", topic, "--partition", "0", stdin="a\nb\nc\n")
    cli.ok("produce", topic, "--partition", "1", stdin="d\n")
    assert cli.ok("topics", "delete-records", topic, "--partition", "0", "--before-offset", "2") == (
        f"Partition 0 of {topic} now starts at offset 2.\n"
    )
    assert cli.ok("consume", topic, "--from-beginning", "--exit-at-end", "--partition", "0") == "c\n"
    starts = cli.json("topics", "delete-records", topic, "--before-offset", "latest")
    assert [entry["earliest"] for entry in starts] == [3, 1, 0]
    assert cli.ok("consume", topic, "--from-beginning", "--exit-at-end") == ""


def test_delete_records_that_are_not_there(cli: Cli, topic: str) -> None:
    arguments = ["topics", "delete-records", topic, "--before-offset", "5"]
    assert cli.fails(*arguments, "--partition", "0").startswith(f"The offset is out of range in '{topic}'")
    assert (
        cli.fails(*arguments, "--partition", "7") == f"Topic '{topic}' has no partition 7; it has 3, numbered from 0."
    )
