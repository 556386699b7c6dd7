"""What users write, and what they are told when it makes no sense."""

import pytest

from ottla.client.offsets import READ_COMMITTED
from ottla.env.network import Address
from ottla.model import TopicPartition
from ottla.spark.bounds import EARLIEST, LATEST, offsets_from_json, offsets_to_json
from ottla.spark.durations import parse_duration
from ottla.spark.log_options import parse_log_options
from ottla.spark.options import OptionError, parse_source_options
from ottla.spark.ranges import OffsetRange, limit_offsets, split_ranges
from ottla.spark.sink_options import parse_sink_options

BASE = {"kafka.bootstrap.servers": "a:1,b:2", "subscribe": "clicks"}


def test_the_least_that_is_needed() -> None:
    options = parse_source_options(BASE, streaming=False)
    assert options.read.bootstrap == (Address("a", 1), Address("b", 2))
    assert options.selection.topics == ("clicks",)
    assert (options.start, options.end) == (EARLIEST, LATEST)
    assert parse_source_options(BASE, streaming=True).start == LATEST
    assert options.read.fail_on_data_loss
    assert not options.read.include_headers


def test_names_do_not_depend_on_case() -> None:
    given = {"KAFKA.Bootstrap.Servers": "a:1", "SUBSCRIBE": "t", "includeheaders": "TRUE", "FAILONDATALOSS": "False"}
    options = parse_source_options(given, streaming=False)
    assert options.read.include_headers
    assert not options.read.fail_on_data_loss


def test_all_that_can_be_set() -> None:
    options = parse_source_options(
        {
            "kafka.bootstrap.servers": "a:1",
            "assign": '{"b":[1,0],"a":[2]}',
            "startingOffsetsByTimestamp": '{"a":{"2":5},"b":{"0":6,"1":7}}',
            "startingOffsetsByTimestampStrategy": "latest",
            "maxOffsetsPerTrigger": "100",
            "minOffsetsPerTrigger": "10",
            "maxTriggerDelay": "5m",
            "minPartitions": "7",
            "maxRecordsPerPartition": "1000",
            "groupId": "g",
            "kafka.isolation.level": "read_committed",
            "kafka.max.partition.fetch.bytes": "1000",
            "kafka.max.poll.records": "10000",
            "kafka.fetch.max.wait.ms": "10",
            "kafka.client.id": "me",
            "kafka.request.timeout.ms": "1500",
            "kafkaConsumer.pollTimeoutMs": "2500",
            "groupIdPrefix": "ignored",
            "partition.metadata.cache.ttl.ms": "ignored",
            "kafka.reconnect.backoff.ms": "50",
        },
        streaming=True,
    )
    assert options.selection.assigned == (TopicPartition("a", 2), TopicPartition("b", 0), TopicPartition("b", 1))
    assert options.start.timestamps
    assert options.start.when_too_young == "latest"
    assert (options.max_offsets_per_trigger, options.min_offsets_per_trigger) == (100, 10)
    assert options.max_trigger_delay == 300
    assert (options.min_partitions, options.max_records_per_partition, options.group_id) == (7, 1000, "g")
    assert options.read.fetch.isolation == READ_COMMITTED
    assert (options.read.fetch.max_bytes, options.read.fetch.max_wait_ms) == (1000, 10)
    assert (options.read.client.client_id, options.read.client.request_timeout) == ("me", 1.5)
    assert options.read.poll_timeout == 2.5


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"subscribe": None}, "one of the options assign, subscribe, subscribePattern"),
        ({"assign": '{"t":[0]}'}, "only one of"),
        ({"subscribe": " , "}, "names no topic"),
        ({"subscribe": None, "subscribePattern": " "}, "empty"),
        ({"subscribe": None, "subscribePattern": "("}, "regular expression"),
        ({"subscribe": None, "assign": "t"}, "must look like"),
        ({"subscribe": None, "assign": '{"t":0}'}, "must look like"),
        ({"subscribe": None, "assign": '{"t":["0"]}'}, "must look like"),
        ({"subscribe": None, "assign": "{}"}, "must look like"),
        ({"kafka.bootstrap.servers": None}, r"kafka\.bootstrap\.servers must be set"),
        ({"kafka.bootstrap.servers": "nowhere"}, "host:port"),
        ({"startingOffsets": "latest"}, "cannot be latest"),
        ({"startingOffsets": '{"clicks":{"0":-1}}'}, "cannot be latest"),
        ({"endingOffsets": "earliest"}, "cannot be earliest"),
        ({"endingOffsets": '{"clicks":{"0":-2}}'}, "cannot be earliest"),
        ({"startingOffsets": "first"}, "must look like"),
        ({"startingOffsets": '{"clicks":{"0":-3}}'}, "must look like"),
        ({"startingOffsets": '{"clicks":[1]}'}, "must look like"),
        ({"startingOffsets": '{"clicks":{"0":"1"}}'}, "must look like"),
        ({"startingOffsetsByTimestamp": '{"clicks":{"0":-1}}'}, "must look like"),
        ({"startingTimestamp": "yesterday"}, "milliseconds"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "error or latest"),
        ({"minPartitions": "0"}, "positive"),
        ({"maxOffsetsPerTrigger": "-5"}, "positive"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "must not be larger"),
        ({"maxTriggerDelay": "soon"}, "duration"),
        ({"failOnDataLoss": "maybe"}, "true or false"),
        ({"includeHeaders": "1"}, "true or false"),
        ({"kafka.isolation.level": "serializable"}, "read_committed"),
        ({"kafka.auto.offset.reset": "earliest"}, "startingOffsets"),
        ({"kafka.key.deserializer": "x"}, "keys are bytes"),
        ({"kafka.enable.auto.commit": "true"}, "groupId"),
        ({"kafka.security.protocol": "SSL"}, "only PLAINTEXT"),
        ({"kafka.no.such.key": "1"}, r"kafka\.no\.such\.key"),
        ({"kafka.fetch.min.bytes": "many"}, "must be a number"),
        ({"maxOffsetPerTrigger": "1"}, "no option 'maxOffsetPerTrigger'"),
    ],
)
def test_complaints(change: dict[str, str | None], complaint: str) -> None:
    given = {key: value for key, value in {**BASE, **change}.items() if value is not None}
    with pytest.raises(OptionError, match=complaint):
        parse_source_options(given, streaming=False)


def test_a_stream_has_no_end() -> None:
    with pytest.raises(OptionError, match="batch queries"):
        parse_source_options({**BASE, "endingOffsets": "latest"}, streaming=True)


def test_a_timestamp_wins_over_offsets() -> None:
    given = {**BASE, "startingTimestamp": "5", "startingOffsetsByTimestamp": "{}", "startingOffsets": "latest"}
    start = parse_source_options(given, streaming=True).start
    assert (start.everywhere, start.timestamps) == (5, True)


def test_offsets_go_to_json_and_back_in_order() -> None:
    offsets = {TopicPartition("b", 10): 1, TopicPartition("b", 2): 3, TopicPartition("a", 0): 0}
    tree = offsets_to_json(offsets)
    assert list(tree) == ["a", "b"]
    assert list(tree["b"]) == ["2", "10"]
    assert offsets_from_json(tree) == offsets


@pytest.mark.parametrize(
    ("text", "seconds"), [("15m", 900), ("1 hour", 3600), ("500ms", 0.5), ("2 minutes", 120), ("250", 0.25), ("3s", 3)]
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


def test_the_sink() -> None:
    options = parse_sink_options({"kafka.bootstrap.servers": "a:1", "topic": "t", "checkpointLocation": "/c"})
    assert (options.topic, options.exactly_once) == ("t", False)
    assert options.producer["enable.idempotence"] == "true"
    exact = parse_sink_options({"kafka.bootstrap.servers": "a:1", "delivery": "Exactly-Once", "kafka.linger.ms": "9"})
    assert exact.exactly_once
    assert exact.batch is None
    assert exact.producer["linger.ms"] == "9"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"delivery": "sometimes"}, "at-least-once or exactly-once"),
        ({"kafka.transactional.id": "x"}, "delivery"),
        ({"kafka.value.serializer": "x"}, "values are strings or bytes"),
        ({"topics": "x"}, "no option 'topics'"),
        ({"delivery": "exactly-once", "queryId": "q"}, "must be set together"),
        ({"delivery": "exactly-once", "batchId": "1"}, "must be set together"),
        ({"queryId": "q", "batchId": "1"}, "for delivery=exactly-once"),
        ({"delivery": "exactly-once", "queryId": "q", "batchId": "-1"}, "batchId must be a number"),
    ],
)
def test_complaints_of_the_sink(change: dict[str, str], complaint: str) -> None:
    with pytest.raises(OptionError, match=complaint):
        parse_sink_options({"kafka.bootstrap.servers": "a:1", **change})


def test_the_log_source() -> None:
    options = parse_log_options({"path": "/data", "kafka.isolation.level": "read_committed", "subscribe": "a, b"})
    assert options.committed
    assert options.selection is not None
    assert options.selection.topics == ("a", "b")
    assert parse_log_options({"path": "/data"}).selection is None
    for bad in ({}, {"path": "/d", "kafka.bootstrap.servers": "a:1"}, {"path": "/d", "assign": "x"}):
        with pytest.raises(OptionError):
            parse_log_options(bad)


P, Q = TopicPartition("t", 0), TopicPartition("t", 1)


def test_limits_give_every_partition_its_share() -> None:
    assert limit_offsets({P: 0, Q: 50}, {P: 300, Q: 150}, 100) == {P: 75, Q: 75}
    assert limit_offsets({P: 0, Q: 0}, {P: 10_000, Q: 1}, 10) == {P: 9, Q: 1}
    assert limit_offsets({P: 5, Q: 5}, {P: 5, Q: 5}, 10) == {P: 5, Q: 5}
    assert limit_offsets({P: 0, Q: 9}, {P: 40, Q: 3}, 10) == {P: 10, Q: 3}


def test_ranges_are_cut_where_they_are_large() -> None:
    ranges = [OffsetRange(P, 0, 900), OffsetRange(Q, 10, 110), OffsetRange(Q, 5, 5)]
    assert split_ranges(ranges) == ranges[:2]
    cut = split_ranges(ranges, min_partitions=10)
    assert [each.size for each in cut] == [100] * 9 + [100]
    small = split_ranges(ranges, max_records=250)
    assert [each.size for each in small] == [225] * 4 + [100]
    assert [(each.start, each.end) for each in split_ranges([OffsetRange(P, 0, 2)], min_partitions=9)] == [
        (0, 1),
        (1, 2),
    ]
    assert split_ranges([], min_partitions=4) == []
    uneven = split_ranges([OffsetRange(P, 0, 90), OffsetRange(Q, 0, 30)], min_partitions=10)
    assert [each.size for each in uneven] == [11] * 6 + [12] * 2 + [10] * 3
    skewed = split_ranges([OffsetRange(P, 0, 900), OffsetRange(Q, 0, 100)], min_partitions=5)
    assert [each.size for each in skewed] == [225] * 4 + [100]
