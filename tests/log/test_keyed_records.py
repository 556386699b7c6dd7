"""The reader of keys against the reader of whole records, and batches that lose some records."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.log.keyed_records import empty, read_keys, rebuild
from ottla.records.builder import NewRecord, build_batch
from ottla.records.format import DELETE_HORIZON_FLAG, HEADER_SIZE, Codec
from ottla.records.header import read_header
from ottla.records.invalid import InvalidBatch
from ottla.records.reader import read_records

NOW_MS = 1_700_000_000_000

data = st.one_of(st.none(), st.binary(max_size=80), st.integers(100, 20_000).map(bytes))
header = st.tuples(st.text(max_size=5), data)
records = st.lists(
    st.builds(
        NewRecord,
        key=data,
        value=data,
        headers=st.lists(header, max_size=2).map(tuple),
        timestamp=st.integers(NOW_MS - 10**9, NOW_MS + 10**9),
    ),
    min_size=1,
    max_size=70,
)


@given(records, st.sampled_from(list(Codec)), st.booleans())
@settings(max_examples=80, deadline=None)
def test_keys_are_those_of_the_records(new: list[NewRecord], codec: Codec, append_time: bool) -> None:
    batch = build_batch(new, codec=codec, base_offset=7, log_append_time=NOW_MS if append_time else None)
    found = read_keys(batch, read_header(batch))
    whole = read_records(batch)
    assert found.keys == [record.key for record in whole]
    assert [7 + delta for delta in found.deltas] == [record.offset for record in whole]
    assert found.tombstones == [number for number, record in enumerate(whole) if record.value is None]
    assert found.bounds[-1] == len(found.payload)


@given(records, st.sampled_from(list(Codec)), st.booleans(), st.data())
@settings(max_examples=80, deadline=None)
def test_what_is_kept_is_as_it_was(
    new: list[NewRecord], codec: Codec, append_time: bool, choose: st.DataObject
) -> None:
    batch = build_batch(new, codec=codec, base_offset=7, log_append_time=NOW_MS if append_time else None)
    before = read_header(batch)
    numbers = sorted(choose.draw(st.sets(st.integers(0, len(new) - 1), min_size=1)))
    horizon = choose.draw(st.sampled_from([None, NOW_MS + 86_400_000]))
    rebuilt = rebuild(before, read_keys(batch, before), numbers, horizon)
    whole = read_records(batch)
    assert read_records(rebuilt) == [whole[number] for number in numbers]
    after = read_header(rebuilt)
    assert after.max_timestamp == (NOW_MS if append_time else max(whole[number].timestamp for number in numbers))
    assert after.last_offset == before.last_offset
    assert bool(after.attributes & DELETE_HORIZON_FLAG) is (horizon is not None)
    assert after.base_timestamp == (before.base_timestamp if horizon is None else horizon)
    again = rebuild(after, read_keys(rebuilt, after), range(len(numbers)))
    assert read_records(again) == read_records(rebuilt)


def test_a_batch_without_records_keeps_its_producer() -> None:
    batch = build_batch(
        [NewRecord(b"k", b"v", (), NOW_MS)] * 3,
        codec=Codec.LZ4,
        base_offset=40,
        producer_id=5,
        producer_epoch=2,
        base_sequence=9,
        leader_epoch=4,
        transactional=True,
    )
    left = empty(read_header(batch))
    header = read_header(left)
    assert len(left) == HEADER_SIZE
    assert read_records(left) == []
    assert (header.base_offset, header.last_offset, header.last_sequence) == (40, 42, 11)
    assert (header.producer_id, header.producer_epoch, header.partition_leader_epoch) == (5, 2, 4)
    assert (header.max_timestamp, header.is_transactional, header.codec) == (NOW_MS, True, Codec.NONE)
    assert read_keys(left, header).keys == []


@given(st.integers(HEADER_SIZE, 150), st.integers(0, 255), st.integers(0, 4))
@settings(max_examples=300, deadline=None)
def test_records_that_make_no_sense_are_refused(position: int, byte: int, extra: int) -> None:
    """Random bytes are either rejected, or give the same keys as the reader of whole records."""
    batch = build_batch([NewRecord(b"key-%d" % number, b"value", (), NOW_MS) for number in range(5)])
    batch += bytes(extra)
    if position < len(batch):
        batch[position] = byte
    header = read_header(batch)._replace(batch_length=len(batch) - 12)
    try:
        found = read_keys(batch, header)
    except InvalidBatch:
        return
    assert len(found.keys) == 5
    assert found.bounds == sorted(set(found.bounds))


def test_a_record_that_claims_more_than_there_is() -> None:
    batch = build_batch([NewRecord(b"key", b"value", (), NOW_MS)])
    with pytest.raises(InvalidBatch, match="the last record is incomplete"):
        read_keys(batch, read_header(batch)._replace(record_count=2))
    batch[HEADER_SIZE] = 0x7E
    with pytest.raises(InvalidBatch, match="the fields of a record exceed its length"):
        read_keys(batch, read_header(batch))
    batch[HEADER_SIZE] = 0x01
    with pytest.raises(InvalidBatch, match="the fields of a record exceed its length"):
        read_keys(batch, read_header(batch))
