"""Which batches are seen, and which are damaged."""

import pytest

from ottla.records.builder import NewRecord, build_batch, seal
from ottla.records.control import EndTransactionMarker, build_marker
from ottla.records.format import ATTRIBUTES_AT, HEADER, Codec
from ottla.records.header import read_header
from ottla.records.invalid import InvalidBatch
from ottla.spark.batches import Aborted, AbortedFilter, Stretch, read_stretch

END = 2**62


def batch(offset: int, count: int = 1, producer_id: int = -1, *, codec: Codec = Codec.NONE) -> bytes:
    records = [NewRecord(b"k", b"v%d" % index) for index in range(count)]
    transactional = producer_id >= 0
    return bytes(
        build_batch(records, base_offset=offset, codec=codec, producer_id=producer_id, transactional=transactional)
    )


def marker(offset: int, producer_id: int, *, committed: bool) -> bytes:
    made = build_marker(EndTransactionMarker(producer_id, 0, 0, committed), 1000)
    made[:8] = offset.to_bytes(8, "big")
    return bytes(made)


def offsets(stretch: Stretch) -> list[int]:
    return [payload.header.base_offset for payload in stretch.payloads]


def test_batches_before_and_after_the_range_are_left_out() -> None:
    log = batch(0, 5) + batch(5, 5) + batch(10, 5) + batch(15, 5)
    stretch = read_stretch(log, 7, 12)
    assert offsets(stretch) == [5, 10]
    assert stretch.next_offset == 15


def test_a_batch_that_has_not_fully_arrived_waits() -> None:
    log = batch(0, 2) + batch(2, 2)
    for cut in range(len(batch(0, 2)), len(log)):
        stretch = read_stretch(log[:cut], 0, END)
        assert (offsets(stretch), stretch.next_offset) == ([0], 2)


def test_nothing_at_all_does_not_move_the_reader() -> None:
    assert read_stretch(b"", 42, END) == Stretch([], 42)


def test_gaps_are_stepped_over() -> None:
    stretch = read_stretch(batch(0) + batch(50), 10, 40)
    assert (offsets(stretch), stretch.next_offset) == ([], 40)


def test_an_empty_batch_moves_the_reader() -> None:
    made = bytearray(batch(3, 4))
    header = read_header(made)
    empty = bytearray(61)
    HEADER.pack_into(empty, 0, *header._replace(batch_length=49, record_count=0))
    seal(empty)
    stretch = read_stretch(bytes(empty) + batch(7), 0, END)
    assert (offsets(stretch), stretch.next_offset) == ([7], 8)


def test_markers_are_never_seen() -> None:
    log = batch(0, 1, 7) + marker(1, 7, committed=True) + batch(2, 1, 7) + marker(3, 7, committed=False)
    assert offsets(read_stretch(log, 0, END)) == [0, 2]
    assert read_stretch(log, 0, END).next_offset == 4


def test_aborted_transactions_are_left_out_until_their_marker() -> None:
    log = (
        batch(0, 1, 7)
        + batch(1, 1, 8)
        + batch(2)
        + marker(3, 7, committed=False)
        + batch(4, 1, 7)
        + marker(5, 8, committed=True)
        + marker(6, 7, committed=True)
    )
    aborted = AbortedFilter([Aborted(7, 0)])
    assert offsets(read_stretch(log, 0, END, aborted)) == [1, 2, 4]


def test_a_producer_that_aborts_twice() -> None:
    log = (
        batch(0, 1, 7)
        + marker(1, 7, committed=False)
        + batch(2, 1, 7)
        + marker(3, 7, committed=True)
        + batch(4, 1, 7)
        + marker(5, 7, committed=False)
    )
    aborted = AbortedFilter([Aborted(7, 4), Aborted(7, 0)])
    assert offsets(read_stretch(log, 0, END, aborted)) == [2]


def test_a_transaction_that_began_before_the_range() -> None:
    log = batch(10, 1, 7) + marker(11, 7, committed=False) + batch(12, 1, 7)
    assert offsets(read_stretch(log, 10, END, AbortedFilter([Aborted(7, 3)]))) == [12]


@pytest.mark.parametrize("position", [ATTRIBUTES_AT, 61, 70])
def test_a_flipped_bit_is_noticed(position: int) -> None:
    damaged = bytearray(batch(0, 3))
    damaged[position] ^= 1
    with pytest.raises(InvalidBatch, match="CRC"):
        read_stretch(damaged, 0, END)


def test_the_old_message_format_is_refused_by_name() -> None:
    old = bytearray(batch(0))
    old[16] = 1
    with pytest.raises(InvalidBatch, match="message format 1"):
        read_stretch(old, 0, END)


def test_a_length_that_is_too_small_is_refused() -> None:
    damaged = bytearray(batch(0))
    damaged[8:12] = (10).to_bytes(4, "big")
    with pytest.raises(InvalidBatch, match="10 bytes"):
        read_stretch(damaged, 0, END)


def test_an_unknown_codec_is_refused() -> None:
    strange = bytearray(batch(0))
    strange[22] = 7
    seal(strange)
    with pytest.raises(InvalidBatch, match="7"):
        read_stretch(strange, 0, END)


def test_a_compressed_batch_is_decompressed() -> None:
    plain, packed = (read_stretch(batch(0, 9, codec=codec), 0, END).payloads[0] for codec in (Codec.NONE, Codec.ZSTD))
    assert bytes(plain.buffer[plain.start : plain.stop]) == bytes(packed.buffer[packed.start : packed.stop])
