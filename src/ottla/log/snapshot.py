"""Producer state snapshots: a file `<offset>.snapshot` has the state of all producers at that offset.

Version 1: version (int16), CRC-32C of all that follows it (uint32), count (int32), then entries. An entry has only the
last batch of a producer.
"""

from __future__ import annotations

import logging
import struct
from typing import TYPE_CHECKING

from crc32c import crc32c

from ottla.log.layout import SNAPSHOT_SUFFIX, segment_path
from ottla.log.producers import AppendedBatch, Producer
from ottla.log.storage import write_file
from ottla.model import NO_OFFSET, NO_SEQUENCE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.env.disk import Disk

logger = logging.getLogger("ottla.log")

VERSION = 1
_HEADER = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")
"""Producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, and the first offset of
the open transaction, -1 for none."""

_KEPT = 3
"""Number of snapshots to keep. A crash may have torn the newest, and a truncation may need an older one."""


class DamagedSnapshot(ValueError):  # noqa: N818 - it names the thing that is wrong
    """The bytes are not a snapshot of a known version, or the checksum is wrong."""


def encode_snapshot(producers: Iterable[Producer]) -> bytes:
    entries = [_encode_entry(producer) for producer in producers]
    body = _COUNT.pack(len(entries)) + b"".join(entries)
    return _HEADER.pack(VERSION, crc32c(body)) + body


def _encode_entry(producer: Producer) -> bytes:
    last = producer.batches[-1] if producer.batches else AppendedBatch(NO_SEQUENCE, NO_OFFSET, 0, -1)
    return _ENTRY.pack(
        producer.producer_id,
        producer.epoch,
        last.last_sequence,
        last.last_offset,
        last.offset_delta,
        producer.last_timestamp,
        producer.coordinator_epoch,
        producer.transaction_start,
    )


def decode_snapshot(data: bytes) -> list[Producer]:
    """Raises DamagedSnapshot."""
    try:
        version, crc = _HEADER.unpack_from(data)
        (count,) = _COUNT.unpack_from(data, _HEADER.size)
    except struct.error as error:
        raise DamagedSnapshot(str(error)) from error
    if version != VERSION:
        raise DamagedSnapshot(f"version {version} is unknown")
    if crc32c(data[_HEADER.size :]) != crc:
        raise DamagedSnapshot("the checksum is wrong")
    entries = data[_HEADER.size + _COUNT.size :]
    if len(entries) != count * _ENTRY.size:
        raise DamagedSnapshot(f"{len(entries)} bytes are not {count} entries")
    return [_decode_entry(fields) for fields in _ENTRY.iter_unpack(entries)]


def _decode_entry(fields: tuple[int, ...]) -> Producer:
    producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, transaction_start = fields
    batches = [AppendedBatch(last_sequence, last_offset, delta, timestamp)] if last_offset >= 0 else []
    return Producer(
        producer_id,
        epoch,
        timestamp,
        batches,
        coordinator_epoch=coordinator_epoch,
        transaction_start=transaction_start,
    )


class Snapshots:
    """The snapshot files of one partition, by the offset at which each was taken."""

    __slots__ = ("_directory", "_disk", "_offsets")

    def __init__(self, disk: Disk, directory: str, offsets: Iterable[int] = ()) -> None:
        self._disk = disk
        self._directory = directory
        self._offsets = sorted(offsets)

    def __bool__(self) -> bool:
        return bool(self._offsets)

    @property
    def offsets(self) -> tuple[int, ...]:
        return tuple(self._offsets)

    def path(self, offset: int) -> str:
        return segment_path(self._directory, offset, SNAPSHOT_SUFFIX)

    def take(self, offset: int, producers: Iterable[Producer]) -> None:
        """Write the state at an offset and delete old snapshots. Not synced: the checksum reveals a torn file."""
        write_file(self._disk, self.path(offset), encode_snapshot(producers))
        if offset not in self._offsets:
            self._offsets.append(offset)
            self._offsets.sort()
        self._remove(self._offsets[:-_KEPT])

    def latest(self, end_offset: int) -> tuple[int, list[Producer]] | None:
        """The newest readable snapshot up to an offset. Damaged newer snapshots are deleted with a warning."""
        for offset in reversed([offset for offset in self._offsets if offset <= end_offset]):
            try:
                return offset, decode_snapshot(self._disk.read_bytes(self.path(offset)))
            except (DamagedSnapshot, FileNotFoundError) as error:
                logger.warning("deleting %s, which is damaged: %s", self.path(offset), error)
                self._remove([offset])
        return None

    def keep_only(self, start_offset: int, end_offset: int) -> None:
        """Delete the snapshots outside of this range of offsets."""
        self._remove([offset for offset in self._offsets if not start_offset < offset <= end_offset])

    def _remove(self, offsets: list[int]) -> None:
        for offset in offsets:
            self._disk.remove(self.path(offset))
        self._offsets = [offset for offset in self._offsets if offset not in offsets]
