import tracemalloc

import cramjam
import pytest
from aiokafka import codec as aiokafka_codec
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import ErrorCode
from ottla.records.compression import compress, decompress, decompress_view
from ottla.records.format import Codec
from ottla.records.invalid import InvalidBatch

from .samples import codecs

COMPRESSED = [codec for codec in Codec if codec is not Codec.NONE]
MEGABYTE = 1024 * 1024
data = st.binary(max_size=2000) | st.binary(min_size=1, max_size=20).map(lambda part: part * 10_000)


@given(codecs, data)
def test_round_trip(codec: Codec, original: bytes) -> None:
    compressed = compress(codec, original)
    assert decompress(codec, compressed, len(original)) == original
    assert decompress(codec, memoryview(bytearray(compressed)), 2**31) == original


@pytest.mark.parametrize(
    ("codec", "levels"),
    [
        (Codec.GZIP, [None, -1, *range(1, 10)]),
        (Codec.LZ4, [None, *range(1, 18)]),
        (Codec.ZSTD, [None, -131072, -1, *range(23)]),
    ],
)
def test_every_level_is_readable(codec: Codec, levels: list[int | None]) -> None:
    original = b"".join(b"record %d " % number for number in range(1000))
    for level in levels:
        compressed = compress(codec, original, level)
        assert decompress(codec, compressed) == original


@pytest.mark.parametrize(
    ("codec", "level"),
    [
        (Codec.GZIP, 0),
        (Codec.GZIP, -2),
        (Codec.GZIP, 10),
        (Codec.LZ4, 0),
        (Codec.LZ4, 18),
        (Codec.ZSTD, -131073),
        (Codec.ZSTD, 23),
    ],
)
def test_levels_outside_kafkas_range_are_refused(codec: Codec, level: int) -> None:
    with pytest.raises(ValueError, match=f"level {level} of"):
        compress(codec, b"data", level)


def test_gzip_level_minus_one_is_the_default() -> None:
    original = b"Ottla " * 1000
    assert compress(Codec.GZIP, original, -1) == compress(Codec.GZIP, original) == compress(Codec.GZIP, original, 6)


def test_higher_levels_compress_better() -> None:
    words = [b"segment", b"offset", b"leader", b"epoch", b"batch", b"record", b"watermark"]
    original = b" ".join(words[number * number * 31 % 101 % 7] + b"%d" % (number % 13) for number in range(5000))
    assert len(compress(Codec.GZIP, original, 9)) < len(compress(Codec.GZIP, original, 1))
    assert len(compress(Codec.LZ4, original, 17)) < len(compress(Codec.LZ4, original))
    assert len(compress(Codec.ZSTD, original, 22)) < len(compress(Codec.ZSTD, original, -1000))


def test_lz4_blocks_are_independent_because_java_refuses_linked_ones() -> None:
    flags = compress(Codec.LZ4, b"Ottla " * 100_000)[4]
    assert flags & 0b1110_0000 == 0b0110_0000


def test_snappy_is_written_in_xerial_blocks_and_read_with_or_without_them() -> None:
    original = bytes(range(256)) * 400
    framed = compress(Codec.SNAPPY, original)
    assert framed.startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
    assert aiokafka_codec.snappy_decode(framed) == original
    assert decompress(Codec.SNAPPY, aiokafka_codec.snappy_encode(original, xerial_blocksize=1000)) == original
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(original))) == original


def test_gzip_of_several_members_is_one_stream() -> None:
    assert decompress(Codec.GZIP, compress(Codec.GZIP, b"one ") + compress(Codec.GZIP, b"two")) == b"one two"


@pytest.mark.parametrize("codec", Codec)
def test_output_beyond_the_limit_is_refused(codec: Codec) -> None:
    original = b"a" * 200_000
    compressed = compress(codec, original)
    assert decompress(codec, compressed, 200_000) == original
    for limit in (0, 10, 100_000, 199_999):
        with pytest.raises(InvalidBatch) as refused:
            decompress(codec, compressed, limit)
        assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_bomb_does_not_get_the_memory_it_asks_for(codec: Codec) -> None:
    bomb = compress(codec, bytes(64 * MEGABYTE))
    tracemalloc.start()
    try:
        with pytest.raises(InvalidBatch) as refused:
            decompress(codec, bomb, MEGABYTE)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert peak < 4 * MEGABYTE


def test_a_snappy_length_that_is_a_lie_is_not_believed() -> None:
    for claimed in (b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"):
        with pytest.raises(InvalidBatch):
            decompress(Codec.SNAPPY, claimed + b"\x00a", MEGABYTE)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_every_truncation_is_refused(codec: Codec) -> None:
    original = b"Ottla, Ottla, Ottla, Ottla"
    compressed = compress(codec, original)
    framing = 16 if codec is Codec.SNAPPY else 0
    for size in range(len(compressed)):
        if size == framing and framing:
            assert decompress(codec, compressed[:size]) == b""
            continue
        with pytest.raises(InvalidBatch) as refused:
            decompress(codec, compressed[:size])
        assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


@given(st.sampled_from(COMPRESSED), st.binary(max_size=100), st.booleans())
def test_garbage_is_refused_or_read_but_never_crashes(codec: Codec, garbage: bytes, prefixed: bool) -> None:
    start = compress(codec, b"")[:16] if prefixed else b""
    try:
        size = len(decompress(codec, start + garbage, MEGABYTE))
    except InvalidBatch as refused:
        size, code = 0, refused.code
    else:
        code = ErrorCode.NONE
    assert size <= MEGABYTE
    assert code in (ErrorCode.NONE, ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE)


@pytest.mark.parametrize("codec", Codec)
def test_large_data_as_a_view(codec: Codec) -> None:
    """Data of several megabytes is neither copied nor zeroed: input and output are views."""
    original = b"".join(b"%09d" % number for number in range(400_000))
    compressed = compress(codec, memoryview(original))
    view = decompress_view(codec, compressed)
    assert view == original
    assert decompress(codec, compress(codec, view)) == original
