"""The offsets of micro-batches, against a running broker and without Spark."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer

from ottla.client.offsets import committed_offsets
from ottla.model import TopicPartition
from ottla.spark.data_loss import DataLoss
from ottla.spark.options import OptionError, parse_source_options
from ottla.spark.session import Session
from ottla.spark.stream import Stream
from tests.compat.deadlines import eventually
from tests.spark import topics


class Now:
    """A clock that stands still until it is told to move."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@contextmanager
def stream_of(bootstrap: str, topic: str, clock: Now | None = None, **more: str) -> Iterator[Stream]:
    stream = Stream(topics.parsed_stream(bootstrap, topic, **more), clock or Now())
    yield stream
    stream.stop()


def at(topic: str, *offsets: int) -> dict[TopicPartition, int]:
    return {TopicPartition(topic, index): offset for index, offset in enumerate(offsets)}


def fill(bootstrap: str, topic: str, *counts: int) -> None:
    topics.fill(bootstrap, topic, [(index, b"v") for index, count in enumerate(counts) for _ in range(count)])


def test_a_stream_starts_at_the_end_unless_told_otherwise(bootstrap: str) -> None:
    topic = topics.make_topic(bootstrap, 2)
    fill(bootstrap, topic, 3, 0)
    with stream_of(bootstrap, topic) as stream:
        assert stream.initial_offsets() == at(topic, 3, 0)
    with stream_of(bootstrap, topic, startingOffsets="earliest") as stream:
        assert stream.initial_offsets() == at(topic, 0, 0)
    with stream_of(bootstrap, topic, startingOffsets=f'{{"{topic}":{{"0":2,"1":-1}}}}') as stream:
        assert stream.initial_offsets() == at(topic, 2, 0)


def test_a_limit_is_shared_by_the_partitions(bootstrap: str) -> None:
    topic = topics.make_topic(bootstrap, 3)
    fill(bootstrap, topic, 90, 10, 1)
    with stream_of(bootstrap, topic) as stream:
        assert stream.next_offsets(at(topic, 0, 0, 0), 20, None) == at(topic, 17, 1, 1)
        assert stream.next_offsets(at(topic, 0, 0, 0), 1000, None) == at(topic, 90, 10, 1)
        assert stream.next_offsets(at(topic, 0, 0, 0), None, None) == at(topic, 90, 10, 1)


def test_small_batches_wait_until_they_are_large_or_late_except_for_the_first(bootstrap: str) -> None:
    topic = topics.make_topic(bootstrap)
    fill(bootstrap, topic, 5)
    now = Now()
    with stream_of(bootstrap, topic, now, maxTriggerDelay="10s") as stream:
        assert stream.next_offsets(at(topic, 0), None, 10) == at(topic, 5)
        fill(bootstrap, topic, 5)
        assert stream.next_offsets(at(topic, 5), None, 10) == at(topic, 5)
        now.seconds = 9
        assert stream.next_offsets(at(topic, 5), None, 10) == at(topic, 5)
        now.seconds = 11
        assert stream.next_offsets(at(topic, 5), None, 10) == at(topic, 10)
        fill(bootstrap, topic, 10)
        assert stream.next_offsets(at(topic, 10), None, 10) == at(topic, 20)


def test_available_now_stops_at_what_was_there(bootstrap: str) -> None:
    topic = topics.make_topic(bootstrap)
    fill(bootstrap, topic, 5)
    with stream_of(bootstrap, topic) as stream:
        stream.stop_at_present()
        fill(bootstrap, topic, 5)
        assert stream.next_offsets(at(topic, 0), 3, None) == at(topic, 3)
        assert stream.next_offsets(at(topic, 3), 3, None) == at(topic, 5)
        assert stream.next_offsets(at(topic, 5), 3, None) == at(topic, 5)


def test_new_partitions_are_read_from_their_beginning(bootstrap: str) -> None:
    topic = topics.make_topic(bootstrap)
    fill(bootstrap, topic, 4)
    with stream_of(bootstrap, topic) as stream:
        topics.add_partitions(bootstrap, topic, 2)
        fill(bootstrap, topic, 0, 6)
        end = stream.next_offsets(at(topic, 4), None, None)
        assert end == at(topic, 4, 6)
        assert [tuple(each) for each in stream.plan(at(topic, 4), end)] == [(TopicPartition(topic, 1), 0, 6)]


def test_new_topics_that_match_a_pattern_join(bootstrap: str) -> None:
    first = topics.make_topic(bootstrap)
    prefix = first[: len("spark-") + 4]
    given = {"kafka.bootstrap.servers": bootstrap, "subscribePattern": f"{prefix}.*"}
    stream = Stream(parse_source_options(given, streaming=True), Now())
    assert stream.initial_offsets() == at(first, 0)
    second = topics.make_topic(bootstrap, name=first + "-more")
    fill(bootstrap, second, 2)
    assert stream.next_offsets(at(first, 0), None, None) == at(first, 0) | at(second, 2)
    stream.stop()


def test_a_partition_that_is_gone_is_a_loss(bootstrap: str) -> None:
    topic = topics.make_topic(bootstrap)
    fill(bootstrap, topic, 4)
    start = at(topic, 0, 7)
    with stream_of(bootstrap, topic) as stream, pytest.raises(DataLoss, match=f"{topic}-1 no longer exist"):
        stream.plan(start, stream.next_offsets(start, None, None))
    with stream_of(bootstrap, topic, failOnDataLoss="false") as stream:
        plan = stream.plan(start, stream.next_offsets(start, None, None))
        assert [tuple(each) for each in plan] == [(TopicPartition(topic, 0), 0, 4)]


def test_a_topic_that_was_made_anew_is_a_loss(bootstrap: str) -> None:
    topic = topics.make_topic(bootstrap)
    fill(bootstrap, topic, 4)
    start = at(topic, 100)
    with stream_of(bootstrap, topic) as stream, pytest.raises(DataLoss, match="went back"):
        stream.plan(start, stream.next_offsets(start, None, None))


def test_finished_batches_are_committed_to_the_group_and_beginnings_are_not(bootstrap: str) -> None:
    topic = topics.make_topic(bootstrap)
    fill(bootstrap, topic, 9)
    group = f"group-{topic}"

    def committed() -> dict[TopicPartition, int]:
        with Session(topics.parsed(bootstrap, topic).read) as session:
            return session.run(committed_offsets(session.client, group))

    with stream_of(bootstrap, topic, groupId=group, startingOffsets="earliest") as stream:
        start = stream.initial_offsets()
        end = stream.next_offsets(start, 5, None)
        assert committed() == {}
        last = stream.next_offsets(end, 5, None)
        assert committed() == at(topic, 5)
        stream.finished(last)
        assert committed() == at(topic, 9)
    with stream_of(bootstrap, topic, groupId=group) as stream:
        stream.next_offsets(at(topic, 7), None, None)
        assert committed() == at(topic, 7)


def test_a_group_with_members_is_not_for_a_query(bootstrap: str) -> None:
    topic = topics.make_topic(bootstrap)
    fill(bootstrap, topic, 3)
    group = f"group-{topic}"
    member = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    member.subscribe([topic])
    try:
        eventually(lambda: member.poll(0.1) is None and member.assignment())
        complaint = f"groupId {group} has members"
        with stream_of(bootstrap, topic, groupId=group) as stream, pytest.raises(OptionError, match=complaint):
            stream.finished(at(topic, 3))
    finally:
        member.close()
