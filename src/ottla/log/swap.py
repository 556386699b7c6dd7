"""Replaces old segments by a compacted one, in steps that survive a crash.

Compaction writes a new segment to files that end in `.cleaned`, and syncs them. Then it renames them to `.swap`, the
`.log` file last. From then on the swap is final: the old segments are deleted, and the `.swap` files lose their suffix,
again the `.log` file last. So a `.log.swap` file means that a swap has begun and not ended. The next start repeats the
steps of such a swap.

A new segment always has both indexes, and a transaction index if one of the old segments has one. So every file of the
old segment with the same base offset is overwritten.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.log.layout import (
    CLEANED_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    parse_offset,
    segment_path,
)
from ottla.log.scan import DamagedBatch, headers

if TYPE_CHECKING:
    from ottla.env.disk import Disk

logger = logging.getLogger("ottla.log")

_LOG_LAST = (*INDEX_SUFFIXES, LOG_SUFFIX)


def begin_swap(disk: Disk, directory: str, base_offset: int) -> None:
    """Rename `.cleaned` files to `.swap`. On OSError the swap has not begun."""
    _rename(disk, directory, base_offset, CLEANED_SUFFIX, SWAP_SUFFIX)


def end_swap(disk: Disk, directory: str, base_offset: int) -> None:
    """Rename `.swap` files to the names of a segment. The old segments must be deleted before."""
    _rename(disk, directory, base_offset, SWAP_SUFFIX, "")


def _rename(disk: Disk, directory: str, base_offset: int, old: str, new: str) -> None:
    for suffix in _LOG_LAST:
        path = segment_path(directory, base_offset, suffix)
        if disk.exists(path + old):
            disk.rename(path + old, path + new)


def abandon(disk: Disk, directory: str, base_offset: int) -> None:
    """Delete the files, complete or not, of a new segment whose swap has not begun."""
    for suffix in SEGMENT_SUFFIXES:
        for ending in (CLEANED_SUFFIX, SWAP_SUFFIX):
            disk.remove(segment_path(directory, base_offset, suffix) + ending)


def settle_swaps(disk: Disk, directory: str, names: list[str]) -> list[str]:
    """Finish swaps that a crash interrupted, and delete new segments whose swap had not begun. Returns the file names
    afterwards."""
    unsettled = [name for name in names if name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX))]
    if not unsettled:
        return names
    begun = [base for name in unsettled if (base := parse_offset(name, LOG_SUFFIX + SWAP_SUFFIX)) is not None]
    for name in unsettled:
        if name.endswith(CLEANED_SUFFIX) or not any(name.startswith(f"{base:020d}.") for base in begun):
            disk.remove(f"{directory}/{name}")
    for base_offset in begun:
        logger.info("%s: finishing the swap of the segment at offset %d", directory, base_offset)
        _remove_replaced(disk, directory, base_offset, names)
        end_swap(disk, directory, base_offset)
    return disk.list(directory)


def _remove_replaced(disk: Disk, directory: str, base_offset: int, names: list[str]) -> None:
    """Delete the segments that begin within the new one. The rename overwrites the one with the same base offset."""
    end_offset = _end_of(disk, directory, base_offset)
    for name in names:
        for suffix in SEGMENT_SUFFIXES:
            base = parse_offset(name, suffix)
            if base is not None and base_offset < base < end_offset:
                disk.remove(f"{directory}/{name}")


def _end_of(disk: Disk, directory: str, base_offset: int) -> int:
    path = segment_path(directory, base_offset, LOG_SUFFIX) + SWAP_SUFFIX
    file = disk.open(path)
    end_offset = base_offset
    try:
        for _, header in headers(file, 0, file.size(), base_offset):
            end_offset = header.next_offset
    except DamagedBatch as error:
        logger.error("%s is damaged %s", path, error)
    file.close()
    return end_offset
