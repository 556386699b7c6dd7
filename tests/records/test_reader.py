import struct
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import ErrorCode
from ottla.records.builder import NewRecord, build_batch, seal
from ottla.records.format import Codec
from ottla.records.header import read_header
from ottla.records.invalid import InvalidBatch
from ottla.records.reader import Record, first_at_or_after, max_timestamp_record, read_records
from ottla.records.rewrite import recompress
from ottla.records.validate import validate_batch, validate_records

from .samples import TEXT, codecs, patched, record_lists, three_records, timestamps, with_payload


def refusal(batch: bytes | bytearray) -> ErrorCode:
    with pytest.raises(InvalidBatch) as refused:
        read_records(batch)
    return refused.value.code


def test_bytes_after_the_batch_do_not_matter() -> None:
    batch = three_records()
    assert read_records(batch + b"next batch") == read_records(batch)
    assert read_records(memoryview(batch)) == read_records(batch)


def test_keys_values_and_headers_are_bytes_or_null() -> None:
    assert read_records(three_records(Codec.SNAPPY)) == [
        Record(0, 1000, b"k0", TEXT, (("h", b"1"), ("null", None))),
        Record(1, 1020, None, TEXT, ()),
        Record(2, 1010, b"k2", None, ()),
    ]


def test_a_compacted_batch_keeps_its_gaps() -> None:
    """Compaction removes records but not their offsets: here 0 and 2 of 0..4 are left."""
    batch = build_batch([NewRecord(None, None)] * 5, base_offset=100)
    left = bytes(batch[61:68] + batch[75:82])
    batch = with_payload(patched(batch, 57, ">i", 2), left)
    assert [record.offset for record in read_records(batch)] == [100, 102]
    assert read_header(batch).next_offset == 105


@given(record_lists, codecs, timestamps)
def test_search_by_time_agrees_with_a_search_through_the_records(
    records: list[NewRecord], codec: Codec, timestamp: int
) -> None:
    batch = build_batch(records, codec=codec, base_offset=1000)
    times = [(1000 + index, record.timestamp) for index, record in enumerate(records)]
    assert max_timestamp_record(batch) == max(times, key=lambda entry: (entry[1], -entry[0]))
    assert first_at_or_after(batch, timestamp) == next((entry for entry in times if entry[1] >= timestamp), None)
    later = [entry for entry in times[3:] if entry[1] >= timestamp]
    assert first_at_or_after(batch, timestamp, start_offset=1003) == (later[0] if later else None)


def test_search_by_time_honours_log_append_time() -> None:
    records = [NewRecord(None, b"a", (), 10), NewRecord(None, b"b", (), 900)]
    batch = build_batch(records, base_offset=5, log_append_time=100)
    assert max_timestamp_record(batch) == (5, 100)
    assert first_at_or_after(batch, 50) == (5, 100)
    assert first_at_or_after(batch, 101) is None


def test_a_batch_emptied_by_compaction_has_no_records_and_no_times() -> None:
    batch = with_payload(patched(three_records(), 57, ">i", 0), b"")
    assert read_records(batch) == []
    assert first_at_or_after(batch, 0) is None
    with pytest.raises(InvalidBatch):
        max_timestamp_record(batch)


@pytest.mark.parametrize(
    ("payload", "what"),
    [
        ("", "nothing"),
        ("0c0000000101", "no header count"),
        ("0e00000001010000", "length beyond the record"),
        ("0a000000010100", "length short of the record"),
        ("0100000001010000", "negative length"),
        ("0c00000002010000", "a key that leaves no room"),
        ("0c000000ffffffff0f0100", "a key of minus two billion, then too little"),
        ("0c000000feffffff0f", "a key of two billion"),
        ("0c00000001feffffff0f", "a value of two billion"),
        ("0c000000010101", "minus one header"),
        ("0c000000010102", "one header that is not there"),
        ("0e00000001010200", "a header without a value"),
        ("100000000101020100", "a header with a null key"),
        ("12000000010102027802", "a header value beyond the record"),
        ("1200000001010202ff01", "a header key that is no UTF-8"),
        ("0e00000001010000", "bytes after the headers"),
        ("0c000002010100", "offset delta beyond the last"),
        ("0c000001010100", "negative offset delta"),
        ("2000ffffffffffffffffffff0100010100", "a timestamp delta of 11 bytes"),
        ("0c00000001010000", "a byte after the last record"),
        ("0c0000000101000c000002010100", "a second record that was not announced"),
    ],
)
def test_malformed_records_are_invalid(payload: str, what: str) -> None:
    batch = build_batch([NewRecord(None, None)])
    assert read_records(with_payload(batch, bytes.fromhex("0c000000010100"))), "the well-formed one"
    assert refusal(with_payload(batch, bytes.fromhex(payload))) is ErrorCode.INVALID_RECORD, what


def test_a_timestamp_beyond_64_bits_is_invalid() -> None:
    batch = build_batch([NewRecord(None, None, (), 0), NewRecord(None, None, (), 1)])
    assert refusal(patched(batch, 27, ">q", 2**63 - 1)) is ErrorCode.INVALID_RECORD


def test_record_attributes_are_ignored() -> None:
    batch = build_batch([NewRecord(b"k", b"v", (), 3)])
    assert read_records(patched(batch, 62, ">B", 0xFF)) == read_records(batch)


@pytest.mark.parametrize("count", [-1, -(2**31), 5, 2**31 - 1])
def test_a_count_that_cannot_be_is_invalid(count: int) -> None:
    assert refusal(patched(three_records(), 57, ">i", count)) is ErrorCode.INVALID_RECORD


def test_frames_that_are_no_batch_are_corrupt() -> None:
    batch = three_records()
    assert refusal(b"") is ErrorCode.CORRUPT_MESSAGE
    assert refusal(batch[:60]) is ErrorCode.CORRUPT_MESSAGE
    assert refusal(batch[:-1]) is ErrorCode.CORRUPT_MESSAGE
    assert refusal(patched(batch, 16, ">b", 1)) is ErrorCode.CORRUPT_MESSAGE
    assert refusal(patched(batch, 8, ">i", 48)) is ErrorCode.CORRUPT_MESSAGE
    assert refusal(patched(batch, 8, ">i", -1)) is ErrorCode.CORRUPT_MESSAGE
    assert refusal(patched(batch, 21, ">h", 5)) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_records_that_expand_too_far_are_refused() -> None:
    batch = build_batch([NewRecord(None, bytes(100_000))], codec=Codec.ZSTD)
    with pytest.raises(InvalidBatch) as refused:
        read_records(batch, limit=50_000)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE


def outcome(look: Callable[[], object]) -> ErrorCode:
    """The reader either succeeds or raises InvalidBatch."""
    try:
        look()
    except InvalidBatch as refused:
        return refused.code
    return ErrorCode.NONE


def examine(batch: bytearray) -> None:
    """All functions that read bytes of unknown origin."""
    looks: list[Callable[[], object]] = [
        lambda: validate_batch(memoryview(batch)),
        lambda: validate_records(batch, read_header(batch), compacted=True),
        lambda: read_records(batch),
        lambda: max_timestamp_record(batch),
        lambda: first_at_or_after(batch, 1010),
        lambda: recompress(batch, Codec.NONE),
    ]
    assert {outcome(look) for look in looks} <= {
        ErrorCode.NONE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    }


@settings(max_examples=200)
@given(record_lists, codecs, st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=6))
def test_mutations_are_read_or_refused(
    records: list[NewRecord], codec: Codec, mutations: list[tuple[int, int]]
) -> None:
    batch = build_batch(records, codec=codec)
    for position, value in mutations:
        batch[position % len(batch)] = value
    examine(batch)
    seal(batch)
    examine(batch)


@pytest.mark.parametrize("codec", Codec)
def test_every_byte_may_be_anything(codec: Codec) -> None:
    batch = three_records(codec)
    for position in range(len(batch)):
        for value in (0, 1, 0x7F, 0x80, 0xFF, batch[position] ^ 1):
            copy = bytearray(batch)
            copy[position] = value
            seal(copy)
            examine(copy)


@pytest.mark.parametrize("codec", Codec)
def test_every_truncation_is_refused_even_with_a_fitting_length_and_checksum(codec: Codec) -> None:
    batch = three_records(codec)
    for size in range(61, len(batch)):
        copy = batch[:size]
        struct.pack_into(">i", copy, 8, size - 12)
        seal(copy)
        examine(copy)
        with pytest.raises(InvalidBatch):
            read_records(copy)
