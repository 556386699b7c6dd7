"""Columns are held to the reader that makes an object per record, and to other clients' decoders."""

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch

from ottla.model import TopicPartition
from ottla.records.builder import NewRecord, build_batch, seal
from ottla.records.format import Codec
from ottla.records.header import read_header
from ottla.records.invalid import InvalidBatch
from ottla.records.reader import read_records
from ottla.records.varint import encode_varint
from ottla.spark import columns, walking
from ottla.spark.batches import read_stretch
from ottla.spark.columns import SCHEMA, SCHEMA_WITH_HEADERS, ColumnDecoder
from ottla.spark.varints import read_any_varints, read_varints
from tests.records import samples

PARTITION = TopicPartition("clicks", 3)
END = 2**62


def decode(log: bytes, start: int = 0, end: int = END, *, headers: bool = True) -> pa.Table:
    payloads, _ = read_stretch(log, start, end)
    decoder = ColumnDecoder(PARTITION, headers=headers)
    return pa.Table.from_batches(decoder.decode(payloads, start, end), decoder.schema)


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """Offset, timestamp in milliseconds, key, value, headers: what `Record` has."""
    milliseconds = [micros // 1000 for micros in table["timestamp"].cast(pa.int64()).to_pylist()]
    headers = [tuple((h["key"], h["value"]) for h in row or ()) for row in table["headers"].to_pylist()]
    columns = (table[name].to_pylist() for name in ("offset", "key", "value"))
    offset, key, value = columns
    return list(zip(offset, milliseconds, key, value, headers, strict=True))


def log_of(batches: Sequence[Sequence[NewRecord]], codecs: Sequence[Codec], gap: int = 0) -> bytes:
    """Batches after each other, with so many offsets missing between them."""
    log, offset = b"", 0
    for index, records in enumerate(batches):
        log += build_batch(records, base_offset=offset, codec=codecs[index % len(codecs)])
        offset += len(records) + gap
    return log


def expected(log: bytes) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    while log:
        size = read_header(log).size
        found += map(tuple, read_records(log[:size]))
        log = log[size:]
    return found


@settings(max_examples=200, deadline=None)
@given(
    batches=st.lists(samples.record_lists, min_size=1, max_size=5),
    codecs=st.lists(samples.codecs, min_size=1, max_size=3),
    gap=st.integers(0, 3),
)
def test_columns_hold_what_the_reader_of_records_finds(
    batches: list[list[NewRecord]], codecs: list[Codec], gap: int
) -> None:
    log = log_of(batches, codecs, gap)
    for many in (0, 10**9):
        with patch.object(walking, "MANY_BATCHES", many):
            table = decode(log)
        assert rows(table) == expected(log)
    assert table.schema == SCHEMA_WITH_HEADERS
    assert set(table["topic"].to_pylist()) == {"clicks"}
    assert set(table["partition"].to_pylist()) == {3}
    assert set(table["timestampType"].to_pylist()) == {0}


@settings(max_examples=100, deadline=None)
@given(
    batches=st.lists(samples.record_lists, min_size=1, max_size=4),
    gap=st.integers(0, 3),
    start=st.integers(0, 60),
    size=st.integers(0, 60),
)
def test_only_the_wanted_offsets_are_in_the_columns(
    batches: list[list[NewRecord]], gap: int, start: int, size: int
) -> None:
    log = log_of(batches, [Codec.NONE, Codec.LZ4], gap)
    assert rows(decode(log, start, start + size)) == [row for row in expected(log) if start <= row[0] < start + size]


@settings(max_examples=60, deadline=None)
@given(records=samples.record_lists, codec=samples.codecs)
def test_columns_hold_what_other_clients_find(records: list[NewRecord], codec: Codec) -> None:
    batch = bytes(build_batch(records, base_offset=7, codec=codec))
    found = rows(decode(batch))
    for other in (AiokafkaBatch, KafkaPythonBatch):
        decoded = [(r.offset, r.timestamp, r.key, r.value, tuple(map(tuple, r.headers))) for r in other(batch)]
        assert found == decoded


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("source", [samples.LIBRDKAFKA, samples.JAVA], ids=["librdkafka", "java"])
def test_batches_of_other_producers(source: dict[Codec, str], codec: Codec) -> None:
    batch = bytes.fromhex(source[codec])
    assert rows(decode(batch)) == [tuple(record) for record in read_records(batch)]


def test_without_headers_there_is_no_column_for_them() -> None:
    table = decode(bytes(samples.three_records()), headers=False)
    assert table.schema == SCHEMA
    assert table["value"].to_pylist() == [record.value for record in read_records(samples.three_records())]


def test_a_record_without_headers_has_null_and_not_an_empty_list() -> None:
    batch = build_batch([NewRecord(b"a", b"b"), NewRecord(b"a", b"b", (("h", None),))])
    assert decode(bytes(batch))["headers"].to_pylist() == [None, [{"key": "h", "value": None}]]


def test_a_header_key_that_is_not_utf_8_is_read_with_replacements() -> None:
    batch = build_batch([NewRecord(b"a", b"b", (("hh", b"1"),))])
    at = bytes(batch).rindex(b"hh")
    batch[at : at + 1] = b"\xff"
    seal(batch)
    assert decode(bytes(batch))["headers"].to_pylist() == [[{"key": "\ufffdh", "value": b"1"}]]


def test_log_append_time_is_that_of_the_batch() -> None:
    batch = build_batch([NewRecord(None, b"a", (), 5), NewRecord(None, b"b", (), 9)], log_append_time=77)
    table = decode(bytes(batch))
    assert [row[1] for row in rows(table)] == [77, 77]
    assert table["timestampType"].to_pylist() == [1, 1]


def test_records_of_kilobytes_and_megabytes() -> None:
    records = [NewRecord(b"k" * size, bytes([size % 251]) * size) for size in (0, 63, 64, 8191, 8192, 1_100_000, 3)]
    log = bytes(build_batch(records)) + bytes(build_batch(records, base_offset=len(records), codec=Codec.ZSTD))
    for many in (0, 10**9):
        with patch.object(walking, "MANY_BATCHES", many):
            assert rows(decode(log)) == expected(log)


def test_lengths_of_one_and_two_bytes_are_walked_in_many_batches_at_once() -> None:
    """Up to the longest record of which the length has two bytes: seven of its own bytes are not the value's."""
    largest = (1 << 13) - 1 - 7
    log = log_of([[NewRecord(None, bytes(size))] * 2 for size in (1, 55, 56, largest)], [Codec.NONE])
    payloads, _ = read_stretch(log, 0, END)
    counts = np.array([each.header.record_count for each in payloads])
    data = np.frombuffer(log, np.uint8)
    found = walking.walk_together(data, payloads, counts)
    assert found is not None
    assert found[1].tolist()[1::2] == [each.stop for each in payloads]
    assert (found[1] - found[0]).max() == (1 << 13) - 1
    longer, _ = read_stretch(log_of([[NewRecord(None, bytes(largest + 1))]], [Codec.NONE]), 0, END)
    assert walking.walk_together(np.frombuffer(longer[0].buffer, np.uint8), longer, np.array([1])) is None


def test_records_are_decoded_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "SLICE_ROWS", 2)
    log = log_of([[NewRecord(b"k", b"v%d" % index) for index in range(5)]] * 2, [Codec.NONE])
    payloads, _ = read_stretch(log, 0, END)
    batches = list(ColumnDecoder(PARTITION, headers=True).decode(payloads, 1, 9))
    assert [batch.num_rows for batch in batches] == [1, 2, 2, 2, 1]
    assert rows(pa.Table.from_batches(batches)) == expected(log)[1:9]


def test_offsets_that_fall_from_one_slice_to_the_next_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "SLICE_ROWS", 1)
    log = log_of([[NewRecord(None, b"v")]] * 2, [Codec.NONE])
    payloads, _ = read_stretch(log, 0, END)
    with pytest.raises(InvalidBatch, match="offsets are not ascending"):
        list(ColumnDecoder(PARTITION).decode(payloads[::-1], 0, END))


def test_large_stretches_are_decoded_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "GROUP_BYTES", 1000)
    log = log_of([[NewRecord(b"k", b"v" * 400)] * 3] * 7, [Codec.NONE, Codec.GZIP])
    payloads, _ = read_stretch(log, 0, END)
    batches = list(ColumnDecoder(PARTITION, headers=True).decode(payloads, 0, END))
    assert len(batches) == 7
    assert rows(pa.Table.from_batches(batches)) == expected(log)


def test_a_partition_without_records_in_range_gives_no_batches() -> None:
    payloads, _ = read_stretch(bytes(samples.three_records()), 0, END)
    assert list(ColumnDecoder(PARTITION).decode(payloads, 100, 200)) == []


def strictly_read(batch: bytes) -> list[tuple[Any, ...]] | None:
    """None for what only the leader's check refuses: header keys that are not UTF-8, offsets beyond the last one."""
    try:
        return [tuple(record) for record in read_records(batch)]
    except InvalidBatch as error:
        lenient = ("UTF-8", "out of order", "64 bits")
        if any(word in str(error) for word in lenient):
            return None
        raise


@settings(max_examples=300, deadline=None)
@given(records=samples.record_lists, data=st.data())
def test_damaged_records_are_refused_or_read_as_the_reader_reads_them(
    records: list[NewRecord], data: st.DataObject
) -> None:
    batch = build_batch(records)
    position = data.draw(st.integers(61, len(batch) - 1))
    batch[position] = data.draw(st.integers(0, 255))
    seal(batch)
    for many in (0, 10**9):
        try:
            with patch.object(walking, "MANY_BATCHES", many):
                table = decode(bytes(batch))
        except InvalidBatch:
            continue
        if (wanted := strictly_read(bytes(batch))) is not None:
            assert rows(table) == wanted


def test_a_timestamp_beyond_microseconds_is_refused() -> None:
    batch = build_batch([NewRecord(None, b"v", (), 2**62)])
    with pytest.raises(InvalidBatch, match="timestamp"):
        decode(bytes(batch))


@settings(max_examples=200, deadline=None)
@given(
    numbers=st.lists(st.integers(-(2**14), 2**14) | st.integers(-(2**63), 2**63 - 1), min_size=1), longest=st.booleans()
)
def test_varints_of_two_bytes_are_read_as_all_others_are(numbers: list[int], longest: bool) -> None:
    encoded = bytearray()
    positions, kept = [], [each for each in numbers if longest or -(2**13) <= each < 2**13]
    for number in kept:
        positions.append(len(encoded))
        encoded += encode_varint(number)
    data, at = np.frombuffer(bytes(encoded), np.uint8), np.array(positions, np.int64)
    for read in (read_varints, read_any_varints):
        values, after = read(data, at)
        assert values.tolist() == kept
        assert after.tolist() == [*positions[1:], len(encoded)][: len(kept)]
        assert values.dtype == after.dtype == np.int64
