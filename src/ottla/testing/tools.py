"""What tests do with topics: create them, write and read records, wait for consumers. Uses confluent-kafka."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ottla.testing.clock import TravelClock
from ottla.testing.faults import TOOLS_CLIENT_ID

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message
    from confluent_kafka.admin import AdminClient

Value: TypeAlias = "str | bytes | None"
_POLL_SECONDS = 0.02
_SHOWN_RECORDS = 10


class Record(NamedTuple):
    """A record. `produce` uses the value, key, headers, partition and timestamp."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None
    offset: int | None = None
    timestamp_ms: int | None = None


class Tools:
    """The tools of a broker or a cluster. They see the broker as it is, without its faults."""

    def __init__(self, clock: TravelClock) -> None:
        self.bootstrap_servers = ""
        self.clock = clock
        """The clock of the broker: `clock.advance(days=8)`."""

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        replication_factor: int = -1,
        config: Mapping[str, str] | None = None,
        timeout: float = 10.0,
    ) -> None:
        """Create a topic. Returns when the brokers know it. By default, it has the broker's replication factor."""
        from ottla.testing.topics import create_topic

        create_topic(
            self.bootstrap_servers,
            name,
            partitions,
            replication_factor=replication_factor,
            config=config,
            timeout=timeout,
        )

    def produce(
        self, topic: str, records: Iterable[Value | tuple[Value, Value] | Record], *, timeout: float = 10.0
    ) -> list[Record]:
        """Write records: values, pairs of key and value, or `Record`s. Returns them with partition and offset.

        Records get the time of the broker's clock unless they have their own.
        """
        from confluent_kafka import Producer

        if isinstance(records, (str, bytes)):
            raise TypeError(f"records is {records!r}; pass a list of values")
        producer = Producer({**self._client(), "linger.ms": 0, "message.timeout.ms": round(timeout * 1000)})
        written: list[Record] = []
        errors: list[Any] = []

        def delivered(record: Record, error: Any, message: Message) -> None:
            if error is None:
                written.append(_record_of(message)._replace(headers=record.headers))
            else:
                errors.append(error)

        wanted = [_to_record(record) for record in records]
        for record in wanted:
            value, key, headers, partition, _, timestamp_ms = record
            producer.produce(
                topic,
                value,
                key,
                partition=-1 if partition is None else partition,
                headers=list(headers),
                timestamp=self.clock.time_ms() if timestamp_ms is None else timestamp_ms,
                on_delivery=partial(delivered, record),
            )
            producer.poll(0)
        producer.flush(timeout + 1)
        if len(written) < len(wanted):
            reason = f": {errors[0].str()}" if errors else ""
            raise TimeoutError(f"wrote {len(written)} of {len(wanted)} records to {topic} in {timeout:g} s{reason}")
        return written

    def consume(self, topic: str, count: int | None = None, *, timeout: float = 10.0) -> list[Record]:
        """Read the committed records of a topic from its start: `count` records, or those up to its present end.

        Reads without a group, so it changes nothing. Records are in order within a partition.
        """
        from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

        deadline = time.monotonic() + timeout
        consumer = Consumer(
            {
                **self._client(),
                "group.id": "unused",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 100,
            }
        )
        try:
            remaining = set(_partitions(consumer, topic, timeout))
            consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in remaining])
            found: list[Record] = []
            while remaining if count is None else len(found) < count:
                message = consumer.poll(max(0.0, min(0.1, deadline - time.monotonic())))
                if message is not None and message.error() is None:
                    found.append(_record_of(message))
                elif message is not None and message.error().code() == KafkaError._PARTITION_EOF:
                    remaining.discard(message.partition())
                elif time.monotonic() >= deadline:
                    raise TimeoutError(_describe_shortage(topic, count, found, timeout))
        finally:
            consumer.close()
        return found

    def wait_for_lag(
        self, group: str, lag: int = 0, *, topics: Sequence[str] | None = None, timeout: float = 30.0
    ) -> None:
        """Wait until a group has committed its offsets up to `lag` records before the end, over all partitions.

        Counts the partitions with a committed offset; with `topics`, all partitions of these topics.
        """
        from confluent_kafka import KafkaException

        admin = self._admin()
        deadline = time.monotonic() + timeout
        seen: _Lags = {}
        problem = ""
        while True:
            try:
                seen = _lags(admin, group, topics, max(0.1, deadline - time.monotonic()))
                problem = ""
            except KafkaException as error:  # The coordinator may be loading, or on another broker from now on.
                problem = f"; the last attempt failed: {error.args[0].str()}"
            if seen and not problem and sum(end - done for done, end in seen.values()) <= lag:
                return
            if time.monotonic() >= deadline:
                raise TimeoutError(_describe_lag(group, lag, seen, timeout) + problem)
            time.sleep(_POLL_SECONDS)

    def _admin(self) -> AdminClient:
        from confluent_kafka.admin import AdminClient

        return AdminClient(self._client())

    def _client(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "client.id": TOOLS_CLIENT_ID,
            "log_level": 0,  # The caller gets an exception. librdkafka would also print to stderr.
            "reconnect.backoff.max.ms": 100,
        }


def _to_record(given: Value | tuple[Value, Value] | Record) -> Record:
    if isinstance(given, Record):
        return given
    key, value = given if isinstance(given, tuple) else (None, given)
    return Record(_to_bytes(value), _to_bytes(key))


def _to_bytes(value: Value) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _record_of(message: Message) -> Record:
    return Record(
        message.value(),
        message.key(),
        tuple(message.headers() or ()),
        message.partition(),
        message.offset(),
        message.timestamp()[1],
    )


def _partitions(consumer: Consumer, topic: str, timeout: float) -> list[int]:
    from confluent_kafka import KafkaException

    try:
        found = consumer.list_topics(topic, timeout=timeout).topics[topic]
    except KafkaException as error:
        raise TimeoutError(f"cannot read {topic} in {timeout:g} s: {error.args[0].str()}") from None
    if found.error is not None:
        raise ValueError(f"cannot read {topic}: {found.error.str()}")
    return list(found.partitions)


def _describe_shortage(topic: str, count: int | None, found: Sequence[Record], timeout: float) -> str:
    values = [record.value for record in found[-_SHOWN_RECORDS:]]
    end = "" if count is None else f" of {count}"
    which = "all of them" if len(found) <= _SHOWN_RECORDS else f"the last {_SHOWN_RECORDS}"
    shown = f"; {which}: {', '.join(map(repr, values))}" if values else ""
    return f"found {len(found)}{end} records in {topic} in {timeout:g} s{shown}"


_Lags: TypeAlias = "dict[tuple[str, int], tuple[int, int]]"
"""The committed offset and the end offset of each partition."""


def _lags(admin: AdminClient, group: str, topics: Sequence[str] | None, timeout: float) -> _Lags:
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
    from confluent_kafka.admin import OffsetSpec

    request = [ConsumerGroupTopicPartitions(group)]
    offsets = admin.list_consumer_group_offsets(request, request_timeout=timeout)[group].result().topic_partitions
    committed = {(each.topic, each.partition): each.offset for each in offsets if each.offset >= 0}
    if topics is None:
        partitions = list(committed)
    else:
        known = admin.list_topics(timeout=timeout).topics
        partitions = [(topic, index) for topic in topics if topic in known for index in known[topic].partitions]
    if not partitions:
        return {}

    def offsets_of(spec: OffsetSpec) -> dict[tuple[str, int], int]:
        wanted = {TopicPartition(*each): spec for each in partitions}
        return {(it.topic, it.partition): found.result().offset for it, found in admin.list_offsets(wanted).items()}

    ends = offsets_of(OffsetSpec.latest())
    starts = offsets_of(OffsetSpec.earliest()) if len(committed) < len(partitions) else {}
    return {each: (committed.get(each, starts.get(each, 0)), ends[each]) for each in partitions}


def _describe_lag(group: str, lag: int, seen: _Lags, timeout: float) -> str:
    if not seen:
        return f"group {group!r} has committed no offset in {timeout:g} s"
    total = sum(end - done for done, end in seen.values())
    each = ", ".join(f"{topic}-{index}: {done} of {end}" for (topic, index), (done, end) in sorted(seen.items()))
    return f"group {group!r} has a lag of {total} after {timeout:g} s, not {lag} ({each})"
