import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli


def records(cli: Cli, topic: str) -> list[dict[str, Any]]:
    """Everything in a topic, by partition and offset."""
    lines = cli.ok("consume", topic, "--from-beginning", "--exit-at-end", "--json").splitlines()
    return sorted(map(json.loads, lines), key=lambda record: (record["partition"], record["offset"]))


def test_each_line_is_a_record(cli: Cli, topic: str) -> None:
    assert cli.ok("produce", topic, "--partition", "2", stdin="one\ntwo\n") == f"Delivered 2 records to {topic}.\n"
    assert [(record["partition"], record["key"], record["value"]) for record in records(cli, topic)] == [
        (2, None, "one"),
        (2, None, "two"),
    ]


def test_nothing_to_send(cli: Cli, topic: str) -> None:
    assert cli.ok("produce", topic, stdin="") == f"Delivered 0 records to {topic}.\n"


def test_keys_headers_and_json_report(cli: Cli, topic: str) -> None:
    result = cli("produce", topic, "--key-separator", ":", "--header", "a=1", "--header", "b=", "--json", stdin="k:v\n")
    assert json.loads(result.stdout) == {"topic": topic, "delivered": 1}
    (record,) = records(cli, topic)
    assert (record["key"], record["value"]) == ("k", "v")
    assert record["headers"] == [{"key": "a", "value": "1"}, {"key": "b", "value": ""}]


def test_kafkas_property_names(cli: Cli, topic: str) -> None:
    cli.ok("produce", topic, "--property", "parse.key=true", "--property", "null.marker=NIL", stdin="k\tNIL\n")
    (record,) = records(cli, topic)
    assert (record["key"], record["value"]) == ("k", None)


def test_a_file(cli: Cli, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    file.write_bytes(b"caf\xc3\xa9\n\xff\xfe\n")
    cli.ok("produce", topic, "--partition", "0", "--file", str(file))
    first, second = records(cli, topic)
    assert first["value"] == "café"
    assert second["value_base64"] == "//4="


def test_several_files(cli: Cli, topic: str, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("first.txt", "second.txt")]
    files[0].write_text("a\nb")
    files[1].write_text("c\n")
    options = [part for file in files for part in ("--file", str(file))]
    answer = cli.ok("produce", topic, "-p", "0", *options, "--file", "-", stdin="d\n")
    assert answer == f"Delivered 4 records to {topic}.\n"
    assert [record["value"] for record in records(cli, topic)] == ["a", "b", "c", "d"]


def test_an_error_names_the_file(cli: Cli, topic: str, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.txt", tmp_path / "bad.txt"
    good.write_text("k:v\n")
    bad.write_text("k:v\noops\n")
    sentence = cli.fails("produce", topic, "-K", ":", "--file", str(good), "--file", str(bad))
    assert sentence == f"Line 2 of {bad} has no key separator ':'; earlier lines were sent."


def test_one_key_for_all_records(cli: Cli, topic: str) -> None:
    cli.ok("produce", topic, "-k", "user", stdin="a\nb\n")
    cli.ok("produce", topic, "-k", "user", "--from-json", stdin='{"value": "c"}\n{"value": "d", "key": "own"}\n')
    assert {record["value"]: record["key"] for record in records(cli, topic)} == {
        "a": "user",
        "b": "user",
        "c": "user",
        "d": "own",
    }


def test_partitioners(cli: Cli, unique: Callable[[str], str]) -> None:
    """The default and murmur2 choose as Kafka's Java client does; `consistent` chooses differently for some keys."""
    name = unique("spread")
    cli.ok("topics", "create", name, "--partitions", "8")
    lines = "".join(f"user-{number}:x\n" for number in range(20))
    cli.ok("produce", name, "-K", ":", stdin=lines)
    cli.ok("produce", name, "-K", ":", "--partitioner", "murmur2", stdin=lines)
    cli.ok("produce", name, "-K", ":", "--partitioner", "consistent", stdin=lines)
    chosen: dict[str, list[int]] = {}
    for record in records(cli, name):
        chosen.setdefault(record["key"], []).append(record["partition"])
    by_java = {f"user-{number}": java_partition(f"user-{number}".encode(), 8) for number in range(20)}
    assert all(numbers.count(by_java[key]) >= 2 for key, numbers in chosen.items())
    assert any(numbers.count(by_java[key]) == 2 for key, numbers in chosen.items())


def java_partition(key: bytes, partitions: int) -> int:
    from kafka.partitioner.default import murmur2

    return int((murmur2(key) & 0x7FFFFFFF) % partitions)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_codecs(cli: Cli, topic: str, codec: str) -> None:
    cli.ok("produce", topic, "--partition", "0", "--compression-codec", codec, stdin="same\n" * 50)
    assert [record["value"] for record in records(cli, topic)] == ["same"] * 50


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acks(cli: Cli, topic: str, acks: str) -> None:
    assert cli.ok("produce", topic, "--acks", acks, stdin="a\n") == f"Delivered 1 record to {topic}.\n"


def test_what_consume_prints_can_be_produced_again(cli: Cli, topic: str, unique: Callable[[str], str]) -> None:
    copy = unique("copy")
    cli.ok("topics", "create", copy, "--partitions", "3")
    cli.ok("produce", topic, "--key-separator", ":", "--header", "h=1", stdin=b"a:1\nb:\xff\nc:3\n")
    printed = cli.ok("consume", topic, "--from-beginning", "--exit-at-end", "--json")
    time.sleep(0.005)  # So that a copy with the current time would differ.
    cli.ok("produce", copy, "--from-json", stdin=printed)
    fields = ("partition", "offset", "timestamp", "key", "value", "value_base64", "headers")
    original, copied = (
        [{field: record.get(field) for field in fields} for record in records(cli, name)] for name in (topic, copy)
    )
    assert copied == original
    assert len(copied) == 3


def test_a_bad_line_ends_it_after_the_good_ones(cli: Cli, topic: str) -> None:
    sentence = cli.fails("produce", topic, "--from-json", stdin='{"value": "good"}\nbad\n')
    assert sentence == "Line 2 is not a record: it is not JSON; earlier lines were sent."
    assert [record["value"] for record in records(cli, topic)] == ["good"]


def test_what_the_broker_refuses_is_named(cli: Cli, topic: str) -> None:
    cli.ok("configs", "alter", "--topic", topic, "--add-config", "max.message.bytes=200")
    sentence = cli.fails("produce", topic, stdin="x" * 500 + "\n")
    assert (
        sentence
        == f"A record is larger than max.message.bytes of '{topic}'; raise this setting or send smaller records."
    )


def test_a_partition_that_is_not_there(cli: Cli, topic: str) -> None:
    assert cli.fails("produce", topic, "--partition", "9", stdin="a\n").startswith(
        f"Topic '{topic}' has no such partition"
    )


def test_a_name_that_is_not_valid(cli: Cli) -> None:
    assert cli.fails("produce", "a/b", stdin="a\n").startswith("'a/b' is not a valid topic name")


def test_wrong_usage(cli: Cli) -> None:
    assert "--acks" in cli.refuses("produce", "x", "--acks", "2")
    assert "--compression-codec" in cli.refuses("produce", "x", "--compression-codec", "zip")
    assert "--key-separator" in cli.refuses("produce", "x", "--key-separator", "")
    assert "--header" in cli.refuses("produce", "x", "--header", "novalue")
    assert "leave one out" in cli.refuses("produce", "x", "--key", "k", "--key-separator", ":")
    assert "--partitioner" in cli.refuses("produce", "x", "--partitioner", "mine")
    assert "--file" in cli.refuses("produce", "x", "--file", "/no/such/file")
    assert "print.key is not one of parse.key" in cli.refuses("produce", "x", "--property", "print.key=true")
