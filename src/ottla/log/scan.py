"""Walks over the batches of a segment file: by header only, to find a position, or with all checks, for recovery."""

from collections.abc import Iterator

from crc32c import crc32c

from ottla.env.disk import File
from ottla.log.index import MAX_RELATIVE_OFFSET
from ottla.records.format import ATTRIBUTES_AT, HEADER_SIZE, LOG_OVERHEAD, MAGIC
from ottla.records.header import BatchHeader, read_header

_HEADER_WINDOW = 8 * 1024
"""Bytes read at once when only headers are needed. Covers many small batches and wastes little on large ones."""

_FULL_WINDOW = 1024 * 1024


class DamagedBatch(Exception):  # noqa: N818 - it names the thing that is wrong
    """No batch can be read at this position of the file."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"at byte {position}: {reason}")
        self.position = position


def headers(file: File, position: int, end: int, base_offset: int) -> Iterator[tuple[int, BatchHeader]]:
    """The position and header of every batch of a segment, from a batch's start up to `end`. Raises DamagedBatch."""
    window = b""
    start = position
    while position < end:
        inside = position - start
        if inside + HEADER_SIZE > len(window):
            window = file.read(min(_HEADER_WINDOW, end - position), position)
            start, inside = position, 0
        header = _plausible_header(window, inside, end - position, base_offset)
        if header is None:
            raise DamagedBatch(position, "there is no valid batch header")
        yield position, header
        position += header.batch_length + LOG_OVERHEAD


def checked_batches(
    file: File, position: int, end: int, base_offset: int, next_offset: int
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Like `headers`, with the bytes of each batch; also checks checksums, and that offsets rise from `next_offset`."""
    window = memoryview(b"")
    start = position
    while position < end:
        inside = position - start
        if inside + HEADER_SIZE > len(window):
            window, start, inside = memoryview(file.read(min(_FULL_WINDOW, end - position), position)), position, 0
        header = _plausible_header(window, inside, end - position, base_offset)
        if header is None:
            raise DamagedBatch(position, "there is no valid batch header")
        size = header.batch_length + LOG_OVERHEAD
        if inside + size > len(window):
            window, start, inside = memoryview(file.read(max(_FULL_WINDOW, size), position)), position, 0
        batch = window[inside : inside + size]
        if crc32c(batch[ATTRIBUTES_AT:]) != header.crc:
            raise DamagedBatch(position, "the checksum is wrong")
        if header.base_offset < next_offset:
            raise DamagedBatch(position, f"the base offset is {header.base_offset}, but must be at least {next_offset}")
        next_offset = header.base_offset + header.last_offset_delta + 1
        yield position, header, batch
        position += size


def _plausible_header(window: bytes | memoryview, inside: int, room: int, base_offset: int) -> BatchHeader | None:
    """The header, or None if it is incomplete or does not fit into the rest of the file and the segment's offsets."""
    if inside + HEADER_SIZE > len(window):
        return None
    header = read_header(window, inside)
    if header.magic != MAGIC or not HEADER_SIZE - LOG_OVERHEAD <= header.batch_length <= room - LOG_OVERHEAD:
        return None
    if header.last_offset_delta < 0 or not 0 <= header.base_offset - base_offset <= MAX_RELATIVE_OFFSET:
        return None
    return header if header.last_offset - base_offset <= MAX_RELATIVE_OFFSET else None
