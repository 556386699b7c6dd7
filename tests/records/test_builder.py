import pytest
from crc32c import crc32c
from hypothesis import given

from ottla.records.builder import NewRecord, build_batch
from ottla.records.format import Codec
from ottla.records.header import read_header
from ottla.records.reader import Record, read_records
from ottla.records.validate import validate_batch, validate_records

from .samples import codecs, record_lists


@given(record_lists, codecs)
def test_what_is_built_is_valid_and_reads_back(records: list[NewRecord], codec: Codec) -> None:
    batch = build_batch(records, codec=codec)
    header = validate_batch(memoryview(batch))
    validate_records(batch, header, compacted=False)
    assert header == read_header(batch)
    assert header.max_timestamp == max(record.timestamp for record in records)
    assert read_records(batch) == [
        Record(offset, record.timestamp, record.key, record.value, record.headers)
        for offset, record in enumerate(records)
    ]


def test_offsets_start_at_the_base_offset() -> None:
    batch = build_batch([NewRecord(None, b"a"), NewRecord(None, b"b")], base_offset=40, leader_epoch=6)
    assert [record.offset for record in read_records(batch)] == [40, 41]
    assert read_header(batch).partition_leader_epoch == 6


def test_log_append_time_is_the_time_of_every_record() -> None:
    batch = build_batch([NewRecord(None, b"a", (), 10), NewRecord(None, b"b", (), 20)], log_append_time=99)
    assert [record.timestamp for record in read_records(batch)] == [99, 99]
    header = read_header(batch)
    assert (header.base_timestamp, header.max_timestamp, header.log_append_time) == (10, 99, True)


def test_the_checksum_covers_everything_after_itself() -> None:
    batch = build_batch([NewRecord(b"k", b"v", (), 1)])
    assert read_header(batch).crc == crc32c(batch[21:])


def test_records_may_come_from_a_generator() -> None:
    batch = build_batch(NewRecord(None, b"%d" % number) for number in range(3))
    assert [record.value for record in read_records(batch)] == [b"0", b"1", b"2"]


def test_an_empty_batch_cannot_be_built() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        build_batch([])
