import pytest
from hypothesis import given

from ottla.records.builder import NewRecord, build_batch
from ottla.records.format import Codec
from ottla.records.header import read_header
from ottla.records.reader import read_records
from ottla.records.rewrite import assign, correct_max_timestamp, recompress, stamp_log_append_time
from ottla.records.validate import InvalidBatch, validate_batch

from .samples import codecs, patched, record_lists, three_records


def valid_from_a_client(batch: bytearray) -> bool:
    """Whether a producer could have sent the batch, except for its offset: the checksum still matches."""
    copy = bytearray(batch)
    assign(copy, read_header(copy), 0, -1)
    return validate_batch(memoryview(copy)) == read_header(copy)


def test_assign_sets_offset_and_epoch_and_nothing_else() -> None:
    batch = three_records(Codec.LZ4)
    changed = bytearray(batch)
    assign(changed, read_header(batch), 1234, 56)
    header = read_header(changed)
    assert (header.base_offset, header.partition_leader_epoch) == (1234, 56)
    assert header._replace(base_offset=0, partition_leader_epoch=-1) == read_header(batch)
    assert changed[61:] == batch[61:]
    assert valid_from_a_client(changed)
    assert [record.offset for record in read_records(changed)] == [1234, 1235, 1236]


@pytest.mark.parametrize("codec", Codec)
def test_log_append_time_replaces_the_times_of_the_records(codec: Codec) -> None:
    batch = three_records(codec)
    before = read_records(batch)
    buffer = bytearray(b"before") + batch + b"after"
    header = stamp_log_append_time(memoryview(buffer), 6, read_header(batch), 777)
    stamped = buffer[6:-5]
    assert header == read_header(stamped)
    assert (header.log_append_time, header.max_timestamp, header.base_timestamp) == (True, 777, 1000)
    assert read_records(stamped) == [record._replace(timestamp=777) for record in before]
    assert buffer == b"before" + stamped + b"after"
    assert header.crc == stamp_log_append_time(stamped, 0, header, 777).crc
    assert header.crc != stamp_log_append_time(stamped, 0, header, 778).crc


def test_a_missing_maximum_timestamp_is_taken_from_the_records() -> None:
    batch = patched(three_records(Codec.ZSTD), 35, ">q", -1)
    header = correct_max_timestamp(memoryview(batch), 0, read_header(batch))
    assert header == read_header(batch)
    assert header.max_timestamp == 1020
    assert batch == three_records(Codec.ZSTD)


@given(record_lists, codecs, codecs)
def test_recompression_keeps_everything_else(records: list[NewRecord], before: Codec, after: Codec) -> None:
    batch = build_batch(
        records,
        base_offset=12,
        codec=before,
        producer_id=3,
        producer_epoch=4,
        base_sequence=5,
        leader_epoch=6,
        transactional=True,
    )
    again = recompress(batch, after)
    assert valid_from_a_client(again)
    assert read_records(again) == read_records(batch)
    old, new = read_header(batch), read_header(again)
    assert (new.codec, new.size) == (after, len(again))
    assert new._replace(attributes=old.attributes, crc=old.crc, batch_length=old.batch_length) == old
    assert new.attributes & ~0x07 == old.attributes & ~0x07


def test_recompression_passes_the_level_on() -> None:
    batch = build_batch([NewRecord(None, b"%d" % (number * number)) for number in range(2000)])
    assert len(recompress(batch, Codec.ZSTD, 19)) < len(recompress(batch, Codec.ZSTD, -1000))


def test_recompression_refuses_what_it_cannot_read() -> None:
    with pytest.raises(InvalidBatch):
        recompress(patched(three_records(), 21, ">h", Codec.ZSTD), Codec.NONE)
