"""Read the current records of a topic for reports, without Spark and without a consumer group."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from ottla.pipeline.failures import PipelineError

HEADER_PREFIX = "ottla.dead-letter."
"""Prefix of the headers of a dead letter: topic, partition, offset, timestamp and reason."""

_TIMEOUT_SECONDS = 10.0


class DeadLetter(NamedTuple):
    """A value that did not match its schema, its origin, and the reason."""

    origin: str
    reason: str
    value: str


def read_json(bootstrap_server: str, topic: str) -> list[dict[str, Any]]:
    """The JSON objects among the values of a topic, from its beginning to its current end."""
    found = []
    for message in read_messages(bootstrap_server, topic):
        try:
            value = json.loads(message.value() or b"null")
        except ValueError:
            continue
        if isinstance(value, dict):
            found.append(value)
    return found


def read_dead_letters(bootstrap_server: str, topic: str) -> list[DeadLetter]:
    letters = []
    for message in read_messages(bootstrap_server, topic):
        headers = {key.removeprefix(HEADER_PREFIX): value.decode() for key, value in message.headers() or ()}
        origin = f"{headers.get('topic')}-{headers.get('partition')} at {headers.get('offset')}"
        letters.append(DeadLetter(origin, headers.get("reason", ""), _printable(message.value() or b"")))
    return letters


def _printable(value: bytes) -> str:
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in value.decode(errors="replace"))


def read_messages(bootstrap_server: str, topic: str) -> Iterator[Any]:
    """All records that exist at the time of the call. Raises PipelineError."""
    from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

    settings = {"bootstrap.servers": bootstrap_server, "group.id": "ottla-report", "log_level": 0}
    # The last offsets may belong to transaction markers, which consumers never get, so wait for the client's EOF event.
    consumer = Consumer({**settings, "enable.partition.eof": True})
    try:
        ends = {}
        for number in consumer.list_topics(topic, timeout=_TIMEOUT_SECONDS).topics[topic].partitions:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=_TIMEOUT_SECONDS)
            if high > low:
                ends[number] = (low, high)
        consumer.assign([TopicPartition(topic, number, low) for number, (low, _) in ends.items()])
        while ends:
            message = consumer.poll(_TIMEOUT_SECONDS)
            if message is None:
                raise PipelineError(f"Topic {topic} cannot be read to its end: the broker does not answer.")
            number, problem = message.partition(), message.error()
            at_end = problem is not None and problem.code() == KafkaError._PARTITION_EOF
            if problem is not None and not at_end:
                raise PipelineError(f"Topic {topic} cannot be read to its end: {problem.str()}.")
            if at_end or message.offset() + 1 >= ends[number][1]:
                del ends[number]
                consumer.incremental_unassign([TopicPartition(topic, number)])
            if not at_end:
                yield message
    except KafkaException as error:
        raise PipelineError(f"Topic {topic} cannot be read: {error.args[0].str()}.") from error
    finally:
        consumer.close()
