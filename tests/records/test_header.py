import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.records.builder import NewRecord, build_batch
from ottla.records.format import HEADER, HEADER_SIZE, LOG_OVERHEAD, Codec
from ottla.records.header import BatchHeader, iter_headers, read_header

from .samples import LIBRDKAFKA, three_records

RECORDS = [NewRecord(b"k", b"v", (), 5000), NewRecord(b"k", b"w", (), 5001)]


def test_the_struct_is_as_long_as_the_format_says() -> None:
    assert HEADER.size == HEADER_SIZE == 61
    assert len(BatchHeader._fields) == 13


def test_codecs_have_kafkas_ids_and_names() -> None:
    assert {codec.kafka_name: codec.value for codec in Codec} == {
        "none": 0,
        "gzip": 1,
        "snappy": 2,
        "lz4": 3,
        "zstd": 4,
    }
    assert all(Codec.named(codec.kafka_name) is codec for codec in Codec)
    assert Codec.named("uncompressed") is Codec.NONE


def test_every_field_is_read_from_its_place() -> None:
    batch = build_batch(
        RECORDS,
        base_offset=7,
        codec=Codec.LZ4,
        producer_id=11,
        producer_epoch=3,
        base_sequence=17,
        leader_epoch=5,
        transactional=True,
    )
    header = read_header(b"before" + batch, 6)
    assert header._replace(crc=0) == BatchHeader(
        base_offset=7,
        batch_length=len(batch) - LOG_OVERHEAD,
        partition_leader_epoch=5,
        magic=2,
        crc=0,
        attributes=0x13,
        last_offset_delta=1,
        base_timestamp=5000,
        max_timestamp=5001,
        producer_id=11,
        producer_epoch=3,
        base_sequence=17,
        record_count=2,
    )
    assert isinstance(header, BatchHeader)
    assert (header.size, header.last_offset, header.next_offset, header.last_sequence) == (len(batch), 8, 9, 18)
    assert header.codec is Codec.LZ4
    assert (header.is_transactional, header.is_control, header.log_append_time, header.has_producer_id) == (
        True,
        False,
        False,
        True,
    )


def test_the_flags_are_told_apart() -> None:
    control = read_header(build_batch(RECORDS, control=True))
    assert (control.is_transactional, control.is_control, control.log_append_time) == (False, True, False)
    stamped = read_header(build_batch(RECORDS, log_append_time=9))
    assert (stamped.is_transactional, stamped.is_control, stamped.log_append_time) == (False, False, True)


@pytest.mark.parametrize(
    ("base", "delta", "last"),
    [
        (-1, 4, -1),
        (0, 0, 0),
        (0, 4, 4),
        (2**31 - 1, 0, 2**31 - 1),
        (2**31 - 1, 1, 0),
        (2**31 - 3, 4, 1),
    ],
)
def test_sequence_numbers_wrap_to_zero(base: int, delta: int, last: int) -> None:
    header = read_header(three_records())._replace(base_sequence=base, last_offset_delta=delta)
    assert header.last_sequence == last


def test_a_header_written_by_another_client() -> None:
    header = read_header(bytes.fromhex(LIBRDKAFKA[Codec.ZSTD]))
    assert (header.codec, header.record_count, header.base_timestamp, header.max_timestamp) == (
        Codec.ZSTD,
        4,
        1_700_000_000_000,
        1_700_000_000_003,
    )
    assert not header.has_producer_id
    assert header.last_sequence == -1


def test_too_few_bytes_are_a_struct_error() -> None:
    with pytest.raises(struct.error):
        read_header(three_records()[:60])


@given(st.integers(0, 300))
def test_iteration_stops_at_a_partial_tail(cut: int) -> None:
    batches = [three_records(), three_records(Codec.GZIP), three_records(Codec.ZSTD)]
    data = b"".join(batches)
    data = data[: max(0, len(data) - cut)]
    ends = [len(b"".join(batches[: count + 1])) for count in range(3)]
    whole = sum(end <= len(data) for end in ends)
    found = list(iter_headers(data))
    assert [position for position, _ in found] == [0, *ends][:whole]
    assert [header.codec for _, header in found] == [Codec.NONE, Codec.GZIP, Codec.ZSTD][:whole]
    assert found == list(iter_headers(memoryview(data)))


@pytest.mark.parametrize("length", [-(2**31), -12, 0, 48])
def test_iteration_stops_at_an_impossible_length(length: int) -> None:
    batch = three_records()
    struct.pack_into(">i", batch, 8, length)
    assert list(iter_headers(three_records() + batch)) == list(iter_headers(three_records()))
