"""kcat, the command-line client: one process per question, as scripts use it."""

import json
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.compat.confluent_client import Record, produce, read_partition, values
from tests.compat.conftest import MakeTopic

pytestmark = pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")


def kcat(bootstrap: str, *arguments: str, stdin: bytes = b"") -> str:
    command = ["kcat", "-b", bootstrap, *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def consume_json(bootstrap: str, topic: str, *arguments: str) -> list[dict[str, Any]]:
    output = kcat(bootstrap, "-C", "-t", topic, "-e", "-q", "-J", *arguments)
    return [json.loads(line) for line in output.splitlines()]


def test_metadata_of_one_topic(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=3)
    metadata = json.loads(kcat(bootstrap, "-L", "-J", "-t", topic))
    [broker] = metadata["brokers"]
    assert (broker["name"], broker["id"]) == (bootstrap, metadata["controllerid"])
    [described] = metadata["topics"]
    assert described["topic"] == topic
    assert [(p["partition"], p["leader"]) for p in described["partitions"]] == [(n, broker["id"]) for n in range(3)]
    assert all(p["isrs"] == p["replicas"] == [{"id": broker["id"]}] for p in described["partitions"])


def test_metadata_of_everything_as_text(bootstrap: str, topic: str) -> None:
    output = kcat(bootstrap, "-L")
    assert f' topic "{topic}" with 1 partitions:' in output
    assert f"at {bootstrap} (controller)" in output


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_produce_and_consume_with_every_codec(bootstrap: str, topic: str, codec: str) -> None:
    lines = [f"line {index} " + "word " * 20 for index in range(30)]
    kcat(bootstrap, "-P", "-t", topic, "-z", codec, stdin="\n".join(lines).encode())
    assert kcat(bootstrap, "-C", "-t", topic, "-e", "-q").splitlines() == lines


def test_keys_and_headers(bootstrap: str, topic: str) -> None:
    kcat(bootstrap, "-P", "-t", topic, "-K", ":", "-H", "a=b", "-H", "empty=", stdin=b"k1:v1\nk2:v2\n")
    messages = consume_json(bootstrap, topic)
    assert [(m["key"], m["payload"], m["offset"]) for m in messages] == [("k1", "v1", 0), ("k2", "v2", 1)]
    assert [m["headers"] for m in messages] == [["a", "b", "empty", ""]] * 2
    assert {m["tstype"] for m in messages} == {"create"}


def test_empty_values_can_be_nulls(bootstrap: str, topic: str) -> None:
    kcat(bootstrap, "-P", "-t", topic, "-K", ":", "-Z", stdin=b"gone:\n")
    assert [(m["key"], m["payload"]) for m in consume_json(bootstrap, topic)] == [("gone", None)]


def test_producing_creates_the_topic(bootstrap: str, unique: Callable[[], str]) -> None:
    topic = unique()
    kcat(bootstrap, "-P", "-t", topic, stdin=b"first\n")
    assert [m["payload"] for m in consume_json(bootstrap, topic)] == ["first"]


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("beginning", list(range(10))),
        ("4", [4, 5, 6, 7, 8, 9]),
        ("-3", [7, 8, 9]),
        ("s@1600000005000", [5, 6, 7, 8, 9]),
    ],
)
def test_starting_points(bootstrap: str, topic: str, start: str, expected: list[int]) -> None:
    produce(bootstrap, topic, [Record(b"x", timestamp=1_600_000_000_000 + 1000 * n) for n in range(10)])
    assert [m["offset"] for m in consume_json(bootstrap, topic, "-o", start)] == expected


def test_a_stretch_of_time(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, [Record(b"x", timestamp=1_600_000_000_000 + 1000 * n) for n in range(10)])
    span = ("-o", "s@1600000002000", "-o", "e@1600000005000")
    assert [m["offset"] for m in consume_json(bootstrap, topic, *span)] == [2, 3, 4]


def test_a_count_of_messages_and_a_format(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, [Record(b"value", key=b"key", timestamp=1234, headers=[("h", b"1")])] * 3)
    output = kcat(bootstrap, "-C", "-t", topic, "-c", "2", "-q", "-f", r"%t %p %o %k %s %h %T\n")
    assert output.splitlines() == [f"{topic} 0 0 key value h=1 1234", f"{topic} 0 1 key value h=1 1234"]


def test_offsets_are_queried_by_time(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, [Record(b"x", timestamp=1_600_000_000_000 + 1000 * n) for n in range(10)])

    def query(timestamp: int) -> int:
        answer: int = json.loads(kcat(bootstrap, "-Q", "-J", "-t", f"{topic}:0:{timestamp}"))[topic]["0"]["offset"]
        return answer

    assert [query(-2), query(-1), query(1_600_000_003_500)] == [0, 10, 4]


def test_a_group_takes_turns(bootstrap: str, topic: str, group: str) -> None:
    produce(bootstrap, topic, values(5))
    settings = ("-X", "auto.offset.reset=earliest", "-q", "-e")
    assert len(kcat(bootstrap, "-G", group, *settings, topic).splitlines()) == 5
    produce(bootstrap, topic, values(2, "later"))
    assert kcat(bootstrap, "-G", group, *settings, topic).splitlines() == ["later-0", "later-1"]


def test_an_idempotent_producer_from_a_file_of_lines(bootstrap: str, topic: str) -> None:
    body = "\n".join(map(str, range(500))).encode()
    kcat(bootstrap, "-P", "-t", topic, "-X", "enable.idempotence=true", stdin=body)
    assert [int(m.value()) for m in read_partition(bootstrap, topic, 500)] == list(range(500))
