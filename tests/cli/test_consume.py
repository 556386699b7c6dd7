import json
from collections.abc import Callable

from tests.cli.conftest import Cli


def test_from_beginning_to_end(cli: Cli, topic: str) -> None:
    cli.ok("produce", topic, "--partition", "0", stdin="a\nb\n")
    result = cli("consume", topic, "--from-beginning", "--exit-at-end")
    assert (result.exit_code, result.stdout) == (0, "a\nb\n")
    assert result.stderr == "Processed a total of 2 messages\n"


def test_the_end_of_an_empty_topic(cli: Cli, topic: str) -> None:
    assert cli.ok("consume", topic, "--from-beginning", "--exit-at-end") == ""


def test_without_from_beginning_old_records_stay_unseen(cli: Cli, topic: str) -> None:
    cli.ok("produce", topic, stdin="old\n")
    assert cli.ok("consume", topic, "--exit-at-end") == ""


def test_one_partition_from_an_offset(cli: Cli, topic: str) -> None:
    cli.ok("produce", topic, "--partition", "0", stdin="other\n")
    cli.ok("produce", topic, "--partition", "1", stdin="a\nb\nc\n")
    arguments = ["consume", topic, "--partition", "1", "--exit-at-end"]
    assert cli.ok(*arguments, "--offset", "1") == "b\nc\n"
    assert cli.ok(*arguments, "--offset", "earliest", "--max-messages", "1") == "a\n"
    assert cli.ok(*arguments, "--offset", "latest") == ""
    assert cli.ok(*arguments, "--offset", "3") == ""
    assert cli.fails(*arguments, "--offset", "99") == (
        f"Offset 99 is outside of partition 1 of '{topic}'; see `ottla topics describe {topic}`."
    )
    assert (
        cli.fails("consume", topic, "--partition", "7") == f"Topic '{topic}' has no partition 7; it has 3, from 0 on."
    )


def test_a_silent_topic_ends_by_timeout(cli: Cli, topic: str) -> None:
    assert cli.ok("consume", topic, "--timeout-ms", "1") == ""


def test_a_topic_that_is_not_there_is_not_made(cli: Cli, unique: Callable[[str], str]) -> None:
    missing = unique("missing")
    assert cli.fails("consume", missing).startswith(f"Topic '{missing}' does not exist")
    assert missing not in cli.json("topics", "list")


def test_a_group_goes_on_where_it_stopped(cli: Cli, topic: str, unique: Callable[[str], str]) -> None:
    group = unique("group")
    cli.ok("produce", topic, "--partition", "0", stdin="a\nb\nc\n")
    arguments = ["consume", topic, "--group", group, "--from-beginning"]
    assert cli.ok(*arguments, "--max-messages", "2") == "a\nb\n"
    assert cli.ok(*arguments, "--exit-at-end") == "c\n"
    assert cli.ok(*arguments, "--exit-at-end") == ""


def test_everything_about_a_record(cli: Cli, topic: str) -> None:
    cli.ok("produce", topic, "--partition", "0", "--key-separator", ":", "--header", "h=1", stdin="k:v\n")
    read = ["consume", topic, "--from-beginning", "--exit-at-end"]
    switches = ["--print-timestamp", "--print-partition", "--print-offset", "--print-headers", "--print-key"]
    timestamp, *fields = cli.ok(*read, *switches).rstrip("\n").split("\t")
    assert timestamp.startswith("CreateTime:1")
    assert fields == ["Partition:0", "Offset:0", "h:1", "k", "v"]
    properties = ["--property", "print.key=true", "--property", "print.value=false", "--property", "key.separator=|"]
    assert cli.ok(*read, *properties) == "k\n"
    assert cli.ok(*read, "--print-key", "--property", "key.separator=|") == "k|v\n"


def test_records_without_headers_key_or_value(cli: Cli, topic: str) -> None:
    cli.ok("produce", topic, "--from-json", stdin='{"value": null}\n')
    read = ["consume", topic, "--from-beginning", "--exit-at-end"]
    assert cli.ok(*read, "--print-headers", "--print-key") == "NO_HEADERS\tnull\tnull\n"


def test_json_lines(cli: Cli, topic: str) -> None:
    cli.ok("produce", topic, "--partition", "1", stdin=b"a\n\xff\n")
    result = cli("consume", topic, "--from-beginning", "--exit-at-end", "--json")
    first, second = map(json.loads, result.stdout.splitlines())
    timestamp = first.pop("timestamp")
    assert timestamp > 1_500_000_000_000
    assert first == {
        "topic": topic,
        "partition": 1,
        "offset": 0,
        "timestamp_type": "CreateTime",
        "headers": [],
        "key": None,
        "value": "a",
    }
    assert second["value_base64"] == "/w=="
    assert result.stderr == ""


def test_wrong_usage(cli: Cli) -> None:
    assert "leave out --partition or --group" in cli.refuses("consume", "x", "--partition", "0", "--group", "g")
    assert "--offset needs --partition" in cli.refuses("consume", "x", "--offset", "3")
    assert "--offset" in cli.refuses("consume", "x", "--partition", "0", "--offset", "soon")
    assert "leave one out" in cli.refuses("consume", "x", "--partition", "0", "--offset", "1", "--from-beginning")
    assert "--max-messages" in cli.refuses("consume", "x", "--max-messages", "0")
