"""The work of a writing task: rows of Arrow columns become records of topics.

With `delivery=exactly-once` a task writes its rows in one transaction. The same transaction commits the number of the
micro-batch as an offset of a group that only this task uses. The transactional id also belongs to the task: a new
producer with this id fences the previous one and ends its transaction. Spark replays a batch after a crash, and when it
retries a task. The committed number then shows whether the log already has the rows: all of them or none.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import repeat
from typing import Any, NamedTuple

import pyarrow as pa
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from ottla.client.offsets import committed_offsets
from ottla.spark.options import OptionError
from ottla.spark.session import Session
from ottla.spark.sink_options import SinkOptions

_ANY_PARTITION = -1
_NOW = 0
_FLUSH_SECONDS = 600.0
_POLL_EVERY = 5000
_SHARED_WITH_CONSUMERS = frozenset({"bootstrap.servers", "client.id"})


class WriteFailed(Exception):  # noqa: N818 - the name states the event
    """Some rows are not in the log, or may not be."""


class BatchMarker(NamedTuple):
    """Identifies the rows of one task in one micro-batch of one query."""

    query: str
    task: int
    batch_id: int

    @property
    def transactional_id(self) -> str:
        return f"ottla-spark-{self.query}-{self.task}"

    @property
    def group(self) -> str:
        """The committed offset of this group is the number of the next micro-batch."""
        return self.transactional_id


def write_at_least_once(batches: Iterator[pa.RecordBatch], options: SinkOptions) -> int:
    """Returns the number of rows. All of them are acknowledged."""
    rows = _Rows(_producer(options, {}), options)
    for batch in batches:
        rows.produce(batch)
    rows.flush()
    return rows.count


def write_exactly_once(batches: Iterator[pa.RecordBatch], options: SinkOptions, marker: BatchMarker) -> int:
    """Returns the number of rows written: 0 if the log already has them."""
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return 0
    producer = _producer(options, {"transactional.id": marker.transactional_id})
    try:
        producer.init_transactions(_FLUSH_SECONDS)
        if _next_batch(marker, options) > marker.batch_id:
            return 0
        producer.begin_transaction()
        rows = _Rows(producer, options)
        try:
            rows.produce(first)
            for batch in batches:
                rows.produce(batch)
            rows.flush()
            _mark(producer, options, marker, min(rows.topics))
            producer.commit_transaction(_FLUSH_SECONDS)
        except BaseException:
            _abort(producer)
            raise
    except KafkaException as error:
        raise WriteFailed(f"the transaction {marker.transactional_id} failed: {error.args[0].str()}") from error
    return rows.count


def _producer(options: SinkOptions, more: Mapping[str, str]) -> Any:
    """A producer that reports only failed rows. Reports for all rows would be too slow."""
    try:
        return Producer({**options.producer, **more, "delivery.report.only.error": True})
    except KafkaException as error:
        raise OptionError(f"the producer rejected its settings: {error.args[0].str()}") from error


def _next_batch(marker: BatchMarker, options: SinkOptions) -> int:
    """The number of the first micro-batch whose rows are not in the log.

    Called after `init_transactions`, so an earlier attempt of the task is fenced and cannot commit any more.
    """
    with Session(options.read) as session:
        offsets = session.run(committed_offsets(session.client, marker.group))
    return max(offsets.values(), default=0)


def _mark(producer: Any, options: SinkOptions, marker: BatchMarker, topic: str) -> None:
    """Commit the batch number for partition 0 of a topic. The partition has no meaning, but must exist."""
    settings = {key: value for key, value in options.producer.items() if key in _SHARED_WITH_CONSUMERS}
    consumer = Consumer({**settings, "group.id": marker.group})
    try:
        position = TopicPartition(topic, 0, marker.batch_id + 1)
        producer.send_offsets_to_transaction([position], consumer.consumer_group_metadata(), _FLUSH_SECONDS)
    finally:
        consumer.close()


def _abort(producer: Any) -> None:
    """Try to abort. If this fails, the next producer with the transactional id aborts the transaction."""
    try:
        producer.abort_transaction(_FLUSH_SECONDS)
    except KafkaException:
        producer.purge()


class _Rows:
    """Passes rows to a producer and raises WriteFailed if a row fails."""

    def __init__(self, producer: Any, options: SinkOptions) -> None:
        self.count = 0
        self.topics: set[str] = set()
        self._producer = producer
        self._topic = options.topic
        self._failure: Any = None

    def produce(self, batch: pa.RecordBatch) -> None:
        send, poll, failed = self._producer.produce, self._producer.poll, self._delivered
        topics = self._topic_column(batch)
        for index, (topic, key, value, partition, timestamp, headers) in enumerate(
            zip(topics, *_columns(batch), strict=False)
        ):
            while True:
                try:
                    send(topic, value, key, partition, on_delivery=failed, timestamp=timestamp, headers=headers)
                    break
                except BufferError:
                    self._serve(poll, 0.1)
                except KafkaException as error:
                    raise WriteFailed(f"a row for topic {topic} was rejected: {error.args[0].str()}") from error
            if index % _POLL_EVERY == 0:
                self._serve(poll, 0)
        self.count += batch.num_rows

    def _topic_column(self, batch: pa.RecordBatch) -> Iterator[str]:
        if self._topic is not None:
            self.topics.add(self._topic)
            return repeat(self._topic, batch.num_rows)
        column = batch["topic"]
        if column.null_count:
            raise WriteFailed("a row has a null topic; set the option topic or fill the column topic")
        self.topics.update(column.unique().to_pylist())
        return iter(column.to_pylist())

    def flush(self) -> None:
        remaining = self._serve(self._producer.flush, _FLUSH_SECONDS)
        if remaining:
            raise WriteFailed(f"{remaining} rows were not acknowledged within {_FLUSH_SECONDS:g} s")

    def _serve(self, call: Callable[[float], int], seconds: float) -> int:
        """Run the producer's callbacks. librdkafka raises a fatal error, such as fencing, inside them."""
        try:
            remaining = call(seconds)
        except (KafkaException, SystemError) as error:
            raise WriteFailed(f"rows were not written: {error.__cause__ or error}") from error
        if self._failure is not None:
            raise WriteFailed(f"a row was not written: {self._failure}")
        return remaining

    def _delivered(self, error: Any, _: Any) -> None:
        self._failure = self._failure or error


def _columns(batch: pa.RecordBatch) -> list[Iterator[Any]]:
    """Keys, values, partitions, timestamps and headers, with the producer's default for missing columns."""
    names, rows = set(batch.schema.names), batch.num_rows
    return [
        _bytes(batch["key"]) if "key" in names else repeat(None, rows),
        _bytes(batch["value"]),
        _filled(batch["partition"], _ANY_PARTITION) if "partition" in names else repeat(_ANY_PARTITION, rows),
        _milliseconds(batch["timestamp"]) if "timestamp" in names else repeat(_NOW, rows),
        _headers(batch["headers"]) if "headers" in names else repeat(None, rows),
    ]


def _bytes(column: pa.Array) -> Iterator[bytes | None]:
    return iter(column.cast(pa.binary()).to_pylist())


def _filled(column: pa.Array, missing: int) -> Iterator[int]:
    return iter(column.fill_null(missing).to_pylist())


def _milliseconds(column: pa.Array) -> Iterator[int]:
    return iter(column.cast(pa.timestamp("ms", tz="UTC"), safe=False).cast(pa.int64()).fill_null(_NOW).to_pylist())


def _headers(column: pa.Array) -> Iterator[list[tuple[str, bytes | None]] | None]:
    for row in column.to_pylist():
        yield None if row is None else [(entry["key"], entry["value"]) for entry in row]
