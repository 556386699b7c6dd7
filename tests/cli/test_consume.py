import json
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

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
        cli.fails("consume", topic, "--partition", "7")
        == f"Topic '{topic}' has no partition 7; it has 3, numbered from 0."
    )


@pytest.fixture
def timed(cli: Cli, topic: str) -> str:
    """Partitions 0 and 1 with records of 2020, 2021 and now."""
    lines = [
        {"value": f"{year}-{partition}", "partition": partition, "timestamp": f"{year}-01-01T00:00:00"}
        for partition in (0, 1)
        for year in (2020, 2021)
    ]
    cli.ok("produce", topic, "--from-json", stdin="".join(json.dumps(line) + "\n" for line in lines))
    cli.ok("produce", topic, "-p", "0", stdin="now-0\n")
    return topic


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        (["--from", "2020-06-01", "-e"], "2021-0 2021-1 now-0"),
        (["--from", "2020-06-01", "--to", "2022-01-01"], "2021-0 2021-1"),
        (["--to", "2020-06-01"], "2020-0 2020-1"),
        (["--from", "-1h", "-e"], "now-0"),
        (["--from", "-1h", "--to", "-30m"], ""),
        (["--from", "1", "-e"], "2021-0 2021-1 now-0"),
        (["--from", "1", "--to", "2"], "2021-0 2021-1"),
        (["--from", "-1", "--to", "end"], "2021-1 now-0"),
        (["-o", "beginning", "--to", "latest"], "2020-0 2020-1 2021-0 2021-1 now-0"),
        (["--from", "99", "-e"], ""),
        (["-p", "0", "-o", "-2", "-e"], "2021-0 now-0"),
        (["-p", "0", "--to", "-1"], "2020-0 2021-0"),
        (["--to", "99"], "2020-0 2020-1 2021-0 2021-1 now-0"),
    ],
    ids=" ".join,
)
def test_from_and_to(cli: Cli, timed: str, arguments: list[str], values: str) -> None:
    printed = cli.ok("consume", timed, "--timeout-ms", "10000", *arguments)
    assert " ".join(sorted(printed.split())) == values


def test_to_stops_before_a_transaction_marker(cli: Cli, topic: str) -> None:
    """Offset 1 is the marker. No record has it, but it is the offset before the end."""
    producer = Producer({"bootstrap.servers": cli.bootstrap_server, "transactional.id": topic})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(topic, value="a", partition=0)
    producer.commit_transaction(10)
    assert cli.ok("consume", topic, "-p", "0", "--to", "latest", "--timeout-ms", "10000") == "a\n"


def test_isolation_level(cli: Cli, topic: str) -> None:
    producer = Producer({"bootstrap.servers": cli.bootstrap_server, "transactional.id": topic})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(topic, value="a", partition=0)
    producer.flush()
    producer.abort_transaction(10)
    read = ["consume", topic, "--from-beginning", "-e"]
    assert cli.ok(*read) == ""
    assert cli.ok(*read, "--isolation-level", "read_uncommitted") == "a\n"


def test_a_template(cli: Cli, topic: str) -> None:
    cli.ok("produce", topic, "-p", "1", "-k", "k", "-H", "a=1", "-H", "b=2", stdin="v\n")
    (record,) = (json.loads(cli.ok("consume", topic, "--from-beginning", "-e", "--json")),)
    template = r"%t %p %o %T %k=%v|%s %h %K %S 100%%\n"
    expected = f"{topic} 1 0 {record['timestamp']} k=v|v a=1,b=2 1 1 100%\n"
    assert cli.ok("consume", topic, "--from-beginning", "-e", "-f", template) == expected


def test_short_flags_and_kafkas_names(cli: Cli, topic: str, unique: Callable[[str], str]) -> None:
    cli.ok("produce", "--topic", topic, "-p", "0", "-K", ":", stdin="k:v\nl:w\n")
    assert cli.ok("consume", "-t", topic, "-o", "earliest", "-n", "1") == "v\n"
    assert cli.ok("consume", f"--topic={topic}", "-p", "0", "-o", "1", "-e") == "w\n"
    assert cli.ok("consume", topic, "-g", unique("group"), "--from-beginning", "-c", "1") == "v\n"
    consumer = ["--consumer-property", "client.id=x", "--formatter-property", "print.key=true"]
    assert cli.ok("consume", topic, "--from-beginning", "-n", "1", *consumer) == "k\tv\n"
    assert cli.ok("consume", topic, "--from-beginning", "--max-messages", "1", "--follow") == "v\n"


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
    assert "a group starts at its committed offsets" in cli.refuses("consume", "x", "--group", "g", "--from", "3")
    assert "a group starts at its committed offsets" in cli.refuses("consume", "x", "--group", "g", "--to", "latest")
    assert "'soon' is none of these" in cli.refuses("consume", "x", "--offset", "soon")
    assert "--to" in cli.refuses("consume", "x", "--to", "-1x")
    assert "leave one out" in cli.refuses("consume", "x", "--follow", "-e")
    assert "leave one out" in cli.refuses("consume", "x", "--format", "%v", "--json")
    assert "%q has no meaning" in cli.refuses("consume", "x", "--format", "%v %q")
    assert "TOPIC" in cli.refuses("consume", "--from-beginning")
    assert "leave one out" in cli.refuses("consume", "x", "--partition", "0", "--offset", "1", "--from-beginning")
    assert "--max-messages" in cli.refuses("consume", "x", "--max-messages", "0")
