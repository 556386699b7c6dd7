"""The four codecs of a batch's records. The output is limited, because a few bytes can expand to gigabytes."""

import mmap
from collections.abc import Callable

import cramjam

from ottla.errors import ErrorCode
from ottla.records.format import Buffer, Codec
from ottla.records.invalid import InvalidBatch

DEFAULT_LIMIT = 128 * 1024 * 1024
"""The most bytes that the decompressed records of one batch may have. In Kafka, the heap is the only limit."""

MAX_EXPANSION = {Codec.NONE: 1, Codec.GZIP: 1032, Codec.SNAPPY: 22, Codec.LZ4: 256, Codec.ZSTD: 32 * 1024}
"""The most bytes that one compressed byte can expand to. No encoder can exceed it, because the formats limit a match:
gzip 258 bytes in 2 bits, snappy 64 bytes in 3 bytes, lz4 255 bytes in 1 byte, zstd a block of 128 KB in 4 bytes."""

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + bytes((0, 0, 0, 1, 0, 0, 0, 1))
XERIAL_BLOCK_SIZE = 32 * 1024
"""The default of xerial's snappy stream, which Java clients use."""

LEVELS = {Codec.GZIP: (1, 9), Codec.LZ4: (1, 17), Codec.ZSTD: (-131072, 22)}
"""The lowest and highest level per codec, as `compression.<codec>.level` allows them."""

DEFAULT_LEVELS = {Codec.GZIP: 6, Codec.LZ4: 9, Codec.ZSTD: 3}
"""Kafka's defaults; its -1 for gzip is zlib's own default, which is 6."""

_FIRST_GUESS = 64 * 1024
_SMALL = 1 << 20
"""Up to this size, zeroing and copying memory is cheap. Both hold Python's global lock, so all threads wait."""

_OUTPUT_FULL = "failed to write whole buffer"


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """The compressed data. `level` is for gzip, lz4 and zstd; None is the default."""
    if codec is Codec.NONE:
        return bytes(data)
    if codec is Codec.SNAPPY:
        return _compress_xerial(data)
    level = _checked_level(codec, level)
    if codec is Codec.GZIP:
        return bytes(cramjam.gzip.compress(data, level=level))
    if codec is Codec.ZSTD:
        return bytes(cramjam.zstd.compress(data, level=level))
    return _compress_lz4(data, level)


def _checked_level(codec: Codec, level: int | None) -> int:
    if level is None or (level == -1 and codec is Codec.GZIP):
        return DEFAULT_LEVELS[codec]
    lowest, highest = LEVELS[codec]
    if not lowest <= level <= highest:
        raise ValueError(f"level {level} of {codec.kafka_name} is outside {lowest}..{highest}")
    return level


def _compress_lz4(data: Buffer, level: int) -> bytes:
    """Blocks must be independent: Kafka's Java reader rejects linked blocks.

    In Kafka, the default level 9 selects the fast compressor, and every other level the high compression one.
    """
    fast = level == DEFAULT_LEVELS[Codec.LZ4]
    compressor = cramjam.lz4.Compressor(level=1 if fast else level, content_checksum=False, block_linked=False)
    view = memoryview(data)
    for start in range(0, len(view), _SMALL):
        compressor.compress(bytes(view[start : start + _SMALL]))
    return bytes(compressor.finish())


def _compress_xerial(data: Buffer) -> bytes:
    parts = [XERIAL_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), XERIAL_BLOCK_SIZE):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + XERIAL_BLOCK_SIZE]))
        parts.append(len(block).to_bytes(4, "big"))
        parts.append(block)
    return b"".join(parts)


def decompress(codec: Codec, data: Buffer, limit: int = DEFAULT_LIMIT) -> bytes:
    """The decompressed data. Raises InvalidBatch if it is damaged or has more than `limit` bytes."""
    return bytes(decompress_view(codec, data, limit))


def decompress_view(codec: Codec, data: Buffer, limit: int = DEFAULT_LIMIT) -> bytes | memoryview:
    """Like `decompress`, but returns large data as a view instead of a copy."""
    if codec is Codec.NONE:
        if len(data) > limit:
            raise _too_large(limit)
        return bytes(data)
    if codec is Codec.SNAPPY:
        view = memoryview(data)
        return _decompress_xerial(view, limit) if view[:8] == XERIAL_MAGIC else _decompress_raw_snappy(view, limit)
    if codec is Codec.GZIP:
        return _decompress_growing(cramjam.gzip.decompress_into, data, limit)
    if codec is Codec.LZ4:
        return _decompress_growing(cramjam.lz4.decompress_into, data, limit)
    return _decompress_growing(cramjam.zstd.decompress_into, data, limit)


def _decompress_growing(
    decompress_into: Callable[[Buffer, memoryview], int], data: Buffer, limit: int
) -> bytes | memoryview:
    """The size is unknown, so start with a usual ratio, then retry with four times as much, up to the limit."""
    room = min(max(_FIRST_GUESS, 8 * len(data)), limit)
    while True:
        output = _memory(room)
        try:
            size = decompress_into(data, output)
        except cramjam.DecompressionError as error:
            if str(error) != _OUTPUT_FULL:
                raise _corrupt(error) from error
            if room == limit:
                raise _too_large(limit) from None
            room = min(4 * room, limit)
        else:
            return bytes(output[:size]) if size <= _SMALL else output[:size]


def _memory(size: int) -> memoryview:
    """Mapped memory costs nothing until it is written to. A large bytearray would be zeroed first."""
    return memoryview(bytearray(size) if size <= _SMALL else mmap.mmap(-1, size))


def _decompress_raw_snappy(data: memoryview, limit: int) -> bytes:
    try:
        if cramjam.snappy.decompress_raw_len(data) > limit:
            raise _too_large(limit)
        return bytes(cramjam.snappy.decompress_raw(data))
    except cramjam.DecompressionError as error:
        raise _corrupt(error) from error


def _decompress_xerial(data: memoryview, limit: int) -> bytes:
    position = len(XERIAL_HEADER)
    if len(data) < position:
        raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, "the header of a snappy stream is truncated")
    parts = []
    while position < len(data):
        start = position + 4
        position = start + int.from_bytes(data[start - 4 : start], "big")
        if start > len(data) or position > len(data):
            raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, "a snappy block is truncated")
        part = _decompress_raw_snappy(data[start:position], limit)
        limit -= len(part)
        parts.append(part)
    return b"".join(parts)


def _corrupt(error: Exception) -> InvalidBatch:
    return InvalidBatch(ErrorCode.CORRUPT_MESSAGE, f"the records cannot be decompressed: {error}")


def _too_large(limit: int) -> InvalidBatch:
    return InvalidBatch(ErrorCode.MESSAGE_TOO_LARGE, f"the records expand to more than {limit} bytes")
