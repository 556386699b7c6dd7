"""Putting a segment that was written anew in the place of those it was made of, whatever happens on the way.

A new segment is written to files that end in `.cleaned`, and synced. Renamed to `.swap`, the `.log` last, it is there
to stay: from then on the old segments go and the `.swap` files get their names, the `.log` again last. So a `.log.swap`
file says that a swap has begun and not ended, and all that is left to do then can be done again from its beginning.

The new segment always brings both indexes, and an index of aborted transactions if an old segment has one, so that what
has lost its `.swap` ending is new.
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
    """From `.cleaned` to `.swap`. On OSError the swap has not begun."""
    _rename(disk, directory, base_offset, CLEANED_SUFFIX, SWAP_SUFFIX)


def end_swap(disk: Disk, directory: str, base_offset: int) -> None:
    """From `.swap` to the names of a segment. The old ones are gone."""
    _rename(disk, directory, base_offset, SWAP_SUFFIX, "")


def _rename(disk: Disk, directory: str, base_offset: int, old: str, new: str) -> None:
    for suffix in _LOG_LAST:
        path = segment_path(directory, base_offset, suffix)
        if disk.exists(path + old):
            disk.rename(path + old, path + new)


def abandon(disk: Disk, directory: str, base_offset: int) -> None:
    """Remove a new segment whose swap has not begun, or what there is of it."""
    for suffix in SEGMENT_SUFFIXES:
        for ending in (CLEANED_SUFFIX, SWAP_SUFFIX):
            disk.remove(segment_path(directory, base_offset, suffix) + ending)


def settle_swaps(disk: Disk, directory: str, names: list[str]) -> list[str]:
    """Finish the swaps that a crash has interrupted, and undo those that had not begun. Returns the names then."""
    unsettled = [name for name in names if name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX))]
    if not unsettled:
        return names
    begun = [base for name in unsettled if (base := parse_offset(name, LOG_SUFFIX + SWAP_SUFFIX)) is not None]
    for name in unsettled:
        if name.endswith(CLEANED_SUFFIX) or not any(name.startswith(f"{base:020d}.") for base in begun):
            disk.remove(f"{directory}/{name}")
    for base_offset in begun:
        logger.info("%s: the swap of the segment at offset %d is finished", directory, base_offset)
        _remove_replaced(disk, directory, base_offset, names)
        end_swap(disk, directory, base_offset)
    return disk.list(directory)


def _remove_replaced(disk: Disk, directory: str, base_offset: int, names: list[str]) -> None:
    """Remove the segments that begin within the new one. That with the same beginning is overwritten by it."""
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
