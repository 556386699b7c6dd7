"""The map from keys to their last offsets, and its estimate of memory."""

import tracemalloc

from ottla.log.keyed_records import KeyedRecords
from ottla.log.offset_map import OffsetMap


def records(*keys: bytes | None, deltas: list[int] | None = None) -> KeyedRecords:
    return KeyedRecords(b"", list(keys), deltas or list(range(len(keys))), [], [])


def test_the_last_offset_counts() -> None:
    offsets = OffsetMap(0, 1 << 20)
    assert offsets.add(10, records(b"a", b"b", b"a"))
    assert offsets.add(20, records(b"b", b"c", deltas=[3, 7]))
    assert offsets.latest([b"a", b"b", b"c", b"d"]) == [12, 23, 27, None]
    assert len(offsets) == 3


def test_no_key_is_no_key() -> None:
    offsets = OffsetMap(0, 1 << 20)
    offsets.add(0, records(None, b"a", None))
    assert offsets.latest([None, b"a"]) == [None, 1]
    assert offsets.knows_none_of([None, b"b"])
    assert not offsets.knows_none_of([b"b", b"a"])


def test_a_full_map_takes_nothing_more() -> None:
    offsets = OffsetMap(0, 400)
    assert offsets.add(0, records(b"a"))
    assert offsets.add(1, records(b"a"))
    assert not offsets.add(2, records(b"b", b"c"))
    assert offsets.latest([b"a", b"b"]) == [1, None]


def test_the_first_batch_is_taken_whatever_it_needs() -> None:
    offsets = OffsetMap(0, 1)
    assert offsets.add(0, records(b"a", b"b", b"c"))
    assert not offsets.add(3, records(b"a"))


def test_the_estimate_is_near_the_truth() -> None:
    for length in (8, 200):
        keys = [b"%0*d" % (length, number) for number in range(20_000)]
        tracemalloc.start()
        offsets = OffsetMap(0, 1 << 30)
        for start in range(0, len(keys), 100):
            offsets.add(start + 1000, records(*[bytes(bytearray(key)) for key in keys[start : start + 100]]))
        taken = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert taken <= offsets.size <= 2 * taken
