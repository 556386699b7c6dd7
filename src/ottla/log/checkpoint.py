"""Kafka's checkpoint files: a version, a count, then one line per entry, all as text.

    0
    2
    clicks 0 1500
    clicks 1 1488

A checkpoint file is replaced as a whole, so a crash leaves the old or the new content, never a mixture.
"""

from collections.abc import Iterable, Mapping

from ottla.env.disk import Disk
from ottla.model import TopicPartition

VERSION = 0


class DamagedCheckpoint(ValueError):  # noqa: N818 - it names the thing that is wrong
    """The text is not a checkpoint of a known version."""


def format_checkpoint(rows: Iterable[tuple[object, ...]]) -> bytes:
    lines = [" ".join(map(str, row)) for row in rows]
    return "\n".join([str(VERSION), str(len(lines)), *lines, ""]).encode()


def parse_checkpoint(data: bytes, columns: int) -> list[list[str]]:
    """The rows, each split into `columns` parts. An empty file, which Kafka leaves in a new directory, has none."""
    if not data:
        return []
    try:
        version, count, *lines = data.decode().splitlines()
        if int(version) != VERSION or int(count) != len(lines):
            raise DamagedCheckpoint(f"version {version} with {count} entries, but {len(lines)} lines follow")
    except ValueError as error:
        raise DamagedCheckpoint(f"not a checkpoint: {error}") from error
    rows = [line.split() for line in lines]
    for row in rows:
        if len(row) != columns:
            raise DamagedCheckpoint(f"{' '.join(row)!r} does not have {columns} parts")
    return rows


def write_offsets(disk: Disk, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Write one offset per partition."""
    rows = [(topic, partition, offset) for (topic, partition), offset in offsets.items()]
    disk.replace_bytes(path, format_checkpoint(rows))


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, int]:
    """Read one offset per partition; empty when the file does not exist. Raises DamagedCheckpoint."""
    if not disk.exists(path):
        return {}
    offsets = {}
    for topic, partition, offset in parse_checkpoint(disk.read_bytes(path), 3):
        try:
            offsets[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError as error:
            raise DamagedCheckpoint(str(error)) from error
    return offsets
