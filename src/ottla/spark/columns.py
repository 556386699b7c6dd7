"""Decode the records of batches into Arrow columns, without creating a Python object per record.

Only the record lengths are read one by one, because the position of a record follows from the length of the previous
one. All other steps work on whole arrays: first the varints of all records, then keys and values. Keys and values have
ascending positions in the payload, so one array of boundaries describes them all to Arrow.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.records.format import MIN_RECORD_SIZE, Buffer
from ottla.records.invalid import InvalidBatch
from ottla.spark.batches import EXPANSION_LIMIT, Payload
from ottla.spark.binaries import Nulls, Spans, binary_columns
from ottla.spark.headers import HEADERS_TYPE, headers_column
from ottla.spark.varints import Bytes, Positions, Truncated, read_varints
from ottla.spark.walking import walk

TIMESTAMP_TYPE = pa.timestamp("us", tz="UTC")
GROUP_BYTES = 8 << 20
"""Batches are decoded together up to this size, so positions in one group fit into 31 bits."""

SLICE_ROWS = 8192
"""Number of records decoded together: few enough that their bytes are still in the processor's cache."""

_FIELDS = [
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", TIMESTAMP_TYPE),
    pa.field("timestampType", pa.int32()),
]
SCHEMA = pa.schema(_FIELDS)
SCHEMA_WITH_HEADERS = pa.schema([*_FIELDS, pa.field("headers", HEADERS_TYPE)])

_MICROSECONDS = 1000
_MAX_MILLISECONDS = (2**63 - 1) // _MICROSECONDS


@dataclass(slots=True)
class _Group:
    """Records in one buffer: start, end and batch index of each record, and the header fields of the batches."""

    data: Bytes
    starts: Positions
    ends: Positions
    batch: Positions
    base_offsets: Positions
    base_timestamps: Positions
    max_timestamps: Positions
    append_time: Nulls


class ColumnDecoder:
    """Builds Arrow batches with the columns of Spark's Kafka source for one partition."""

    def __init__(self, topic_partition: TopicPartition, *, headers: bool = False) -> None:
        self.schema = SCHEMA_WITH_HEADERS if headers else SCHEMA
        self._headers = headers
        self._topic_partition = topic_partition
        self._constants = _constant_columns(topic_partition, 0)

    def decode(self, payloads: Sequence[Payload], start: int, end: int) -> Iterator[pa.RecordBatch]:
        """The records with offsets from `start` up to, but not including, `end`. Raises InvalidBatch."""
        for chosen in _groups(payloads):
            try:
                yield from self._decode_group(_locate(chosen), start, end)
            except Truncated as error:
                raise InvalidBatch(ErrorCode.INVALID_RECORD, str(error)) from None

    def _decode_group(self, group: _Group, start: int, end: int) -> Iterator[pa.RecordBatch]:
        before = -1
        for first in range(0, len(group.starts), SLICE_ROWS):
            rows = slice(first, first + SLICE_ROWS)
            deltas, at = read_varints(group.data, group.starts[rows] + 1)
            offset_deltas, at = read_varints(group.data, at)
            offsets = group.base_offsets[group.batch[rows]] + offset_deltas
            if offsets[0] <= before or not (offsets[1:] > offsets[:-1]).all():
                raise InvalidBatch(ErrorCode.INVALID_RECORD, "offsets are not ascending")
            before = int(offsets[-1])
            low, high = np.searchsorted(offsets, [start, end])
            if low < high:
                wanted = slice(first + low, first + high)
                yield self._batch(group, wanted, offsets[low:high], deltas[low:high], at[low:high])

    def _batch(
        self, group: _Group, rows: slice, offsets: Positions, deltas: Positions, at: Positions
    ) -> pa.RecordBatch:
        """`at` holds the positions of the key lengths of the rows."""
        data, ends, batch = group.data, group.ends[rows], group.batch[rows]
        key, value, at = _keys_and_values(data, at, ends)
        topics, partitions = self._constant(len(at))
        append_time = group.append_time[batch]
        columns = [
            key,
            value,
            topics,
            partitions,
            pa.array(offsets),
            pa.array(_timestamps(group, batch, deltas, append_time)).view(TIMESTAMP_TYPE),
            pa.array(append_time.astype(np.int32)),
        ]
        if self._headers:
            columns.append(headers_column(data, at, ends))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _constant(self, count: int) -> tuple[pa.Array, pa.Array]:
        """Topic and partition are the same in every row, so the columns are slices of cached ones."""
        topics, partitions = self._constants
        if len(topics) < count:
            self._constants = topics, partitions = _constant_columns(self._topic_partition, 2 * count)
        return topics.slice(0, count), partitions.slice(0, count)


def _constant_columns(topic_partition: TopicPartition, count: int) -> tuple[pa.Array, pa.Array]:
    topic, partition = topic_partition
    return pa.repeat(pa.scalar(topic, pa.string()), count), pa.repeat(pa.scalar(partition, pa.int32()), count)


def _groups(payloads: Sequence[Payload]) -> Iterator[Sequence[Payload]]:
    """Group adjacent batches up to GROUP_BYTES, which amortizes numpy's cost per call."""
    group: list[Payload] = []
    size = 0
    for payload in payloads:
        if group and size + payload.size > GROUP_BYTES:
            yield group
            group, size = [], 0
        group.append(payload)
        size += payload.size
    if group:
        yield group


def _locate(payloads: Sequence[Payload]) -> _Group:
    """Locate the records of payloads, in the buffer that the payloads share or else in a joined copy."""
    buffer: Buffer = payloads[0].buffer
    if any(each.buffer is not buffer for each in payloads):
        buffer = b"".join(memoryview(each.buffer)[each.start : each.stop] for each in payloads)
        stops = np.cumsum([each.size for each in payloads]).tolist()
        payloads = [
            each._replace(start=stop - each.size, stop=stop) for each, stop in zip(payloads, stops, strict=True)
        ]
    if len(buffer) > EXPANSION_LIMIT:
        raise InvalidBatch(ErrorCode.MESSAGE_TOO_LARGE, f"a batch is larger than {EXPANSION_LIMIT} bytes")
    counts = _counts(payloads)
    data = np.frombuffer(buffer, np.uint8)
    bodies, ends = walk(data, buffer, payloads, counts)
    batch = np.repeat(np.arange(len(payloads)), counts)
    headers = [each.header for each in payloads]
    return _Group(
        data,
        bodies,
        ends,
        batch,
        np.array([header.base_offset for header in headers], np.int64),
        np.array([header.base_timestamp for header in headers], np.int64),
        np.array([header.max_timestamp for header in headers], np.int64),
        np.array([header.log_append_time for header in headers], np.bool_),
    )


def _counts(payloads: Sequence[Payload]) -> Positions:
    """The record counts of the batches, validated before memory is allocated for them."""
    for each in payloads:
        if not 0 < each.header.record_count * MIN_RECORD_SIZE <= each.size:
            reason = f"{each.header.record_count} records cannot fit in {each.size} bytes"
            raise InvalidBatch(ErrorCode.INVALID_RECORD, reason)
    return np.array([each.header.record_count for each in payloads], np.int64)


def _keys_and_values(data: Bytes, at: Positions, ends: Positions) -> tuple[pa.Array, pa.Array, Positions]:
    """The key column, the value column, and the positions after the values, where the headers begin."""
    key_lengths, key_starts = read_varints(data, at)
    key_stops = key_starts + np.maximum(key_lengths, 0)
    if (key_lengths > ends - key_starts).any():
        raise InvalidBatch(ErrorCode.INVALID_RECORD, "a key is longer than its record")
    value_lengths, value_starts = read_varints(data, key_stops)
    value_stops = value_starts + np.maximum(value_lengths, 0)
    if (value_lengths >= ends - value_starts).any():
        raise InvalidBatch(ErrorCode.INVALID_RECORD, "a value is longer than its record")
    keys = Spans(key_starts, key_stops, key_lengths < 0)
    values = Spans(value_starts, value_stops, value_lengths < 0)
    key, value = binary_columns(data, keys, values)
    return key, value, value_stops


def _timestamps(group: _Group, batch: Positions, deltas: Positions, append_time: Nulls) -> Positions:
    """Timestamps in microseconds, the unit of Spark."""
    base = group.base_timestamps[batch] + deltas
    if append_time.any():
        base = np.where(append_time, group.max_timestamps[batch], base)
    if (np.abs(base) > _MAX_MILLISECONDS).any():
        raise InvalidBatch(ErrorCode.INVALID_TIMESTAMP, "a timestamp does not fit in 64 bits of microseconds")
    return base * _MICROSECONDS
