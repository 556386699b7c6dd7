"""Read the segment files of a data directory of Ottla or Apache Kafka, without a broker.

A broker may write to the directory at the same time. Only records below the directory's high watermark checkpoint are
read. So the reader never reaches the end of the active segment, which may be half written or filled with zeros.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pyarrow as pa

from ottla.env.disk import OsDisk
from ottla.log.checkpoint import read_offsets
from ottla.log.layout import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    LOG_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    parse_offset,
    parse_partition_directory,
    segment_path,
)
from ottla.log.transaction_index import AbortedTransaction, entries
from ottla.model import INTERNAL_TOPICS, TopicPartition
from ottla.records.control import read_marker
from ottla.records.format import HEADER_SIZE, LOG_OVERHEAD
from ottla.records.header import BatchHeader, read_header
from ottla.spark.batches import Aborted, AbortedFilter, read_stretch
from ottla.spark.columns import ColumnDecoder
from ottla.spark.selection import Selection

CHUNK_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class SegmentRange:
    """A segment file, the offset range to read in it, and the transactions aborted in that range."""

    topic_partition: TopicPartition
    path: str
    start: int
    end: int
    aborted: tuple[Aborted, ...] | None
    """None to include the records of aborted transactions."""


class NotADataDirectory(ValueError):  # noqa: N818 - the name states the finding
    """The path contains no partition directory."""


def plan_directory(root: str, selection: Selection | None, *, committed: bool) -> list[SegmentRange]:
    """The segments to read, one per task. With `committed`, only records of committed transactions are read."""
    if not os.path.isdir(root):
        raise NotADataDirectory(f"{root} is not a directory")
    partitions = {
        found: str(path)
        for path in sorted(Path(root).iterdir())
        if path.is_dir() and (found := parse_partition_directory(path.name)) is not None
    }
    if not partitions:
        raise NotADataDirectory(f"{root} contains no partition directory, such as clicks-0")
    disk = OsDisk()
    starts = read_offsets(disk, os.path.join(root, LOG_START_OFFSETS))
    watermarks = read_offsets(disk, os.path.join(root, HIGH_WATERMARKS))
    trusted = os.path.exists(os.path.join(root, HIGH_WATERMARKS))
    plan: list[SegmentRange] = []
    for each in _chosen(partitions, selection):
        start = starts.get(each, 0)
        end = watermarks.get(each, 0) if trusted else 2**63 - 1
        plan += _plan_partition(each, partitions[each], start, end, committed=committed)
    return plan


def _chosen(partitions: dict[TopicPartition, str], selection: Selection | None) -> list[TopicPartition]:
    """The selected partitions. Without a selection: all partitions except those of internal topics."""
    if selection is None:
        return sorted(each for each in partitions if each.topic not in INTERNAL_TOPICS)
    if selection.pattern is not None:
        pattern = re.compile(selection.pattern)
        matching = (each for each in partitions if pattern.search(each.topic))
        return sorted(each for each in matching if each.topic not in INTERNAL_TOPICS)
    missing = sorted(set(selection.assigned) - set(partitions))
    unknown = sorted(set(selection.topics) - {each.topic for each in partitions})
    if missing or unknown:
        raise NotADataDirectory(f"the directory does not contain {[*map(str, missing), *unknown][0]}")
    return sorted(selection.assigned) or sorted(each for each in partitions if each.topic in selection.topics)


def _plan_partition(
    topic_partition: TopicPartition, directory: str, start: int, end: int, *, committed: bool
) -> list[SegmentRange]:
    bases = sorted(
        base for name in os.listdir(directory) if (base := parse_offset(name, LOG_SUFFIX)) is not None and base < end
    )
    aborted: list[AbortedTransaction] = []
    if committed:
        end = min(end, _last_stable_offset(directory, bases, end))
        aborted = _aborted(directory, bases)
    plan = []
    for base, following in pairwise([*bases, end]):
        first, last = max(base, start), min(following, end)
        if first < last:
            path = segment_path(directory, base, LOG_SUFFIX)
            unseen = _aborted_between(aborted, first, last) if committed else None
            plan.append(SegmentRange(topic_partition, path, first, last, unseen))
    return plan


def _aborted_between(aborted: list[AbortedTransaction], first: int, last: int) -> tuple[Aborted, ...]:
    """The transactions with records in the range. One that ended before it would hide later records of its producer."""
    return tuple(
        Aborted(each.producer_id, each.first_offset)
        for each in aborted
        if each.last_offset >= first and each.first_offset < last
    )


def _aborted(directory: str, bases: list[int]) -> list[AbortedTransaction]:
    """From all transaction indexes: a transaction is in the index of the segment that contains its marker."""
    paths = [Path(segment_path(directory, base, TRANSACTION_INDEX_SUFFIX)) for base in bases]
    return [entry for path in paths if path.exists() for entry in entries(path.read_bytes())]


def _last_stable_offset(directory: str, bases: list[int], end: int) -> int:
    """The first offset of the earliest transaction that is open at `end`. Reads batch headers and markers only."""
    open_transactions: dict[int, int] = {}
    for base in bases:
        with open(segment_path(directory, base, LOG_SUFFIX), "rb") as file:
            for position, header in _headers(file.fileno(), end):
                if header.is_control:
                    marker = read_marker(os.pread(file.fileno(), header.size, position), header)
                    if marker is not None:
                        open_transactions.pop(header.producer_id, None)
                elif header.is_transactional:
                    open_transactions.setdefault(header.producer_id, header.base_offset)
    return min(open_transactions.values(), default=end)


def _headers(descriptor: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    position = 0
    while len(data := os.pread(descriptor, HEADER_SIZE, position)) == HEADER_SIZE:
        header = read_header(data)
        if header.batch_length < HEADER_SIZE - LOG_OVERHEAD or header.base_offset >= end:
            return
        yield position, header
        position += header.size


def read_segment(segment: SegmentRange, *, headers: bool) -> Iterator[pa.RecordBatch]:
    """The records of a segment, a few megabytes at a time."""
    decoder = ColumnDecoder(segment.topic_partition, headers=headers)
    aborted = None if segment.aborted is None else AbortedFilter(segment.aborted)
    with open(segment.path, "rb") as file:
        for chunk in _chunks(file.fileno()):
            payloads, next_offset = read_stretch(chunk, segment.start, segment.end, aborted)
            yield from decoder.decode(payloads, segment.start, segment.end)
            if next_offset >= segment.end:
                return


def _chunks(descriptor: int) -> Iterator[memoryview]:
    """Complete batches of the file. Stops at the first incomplete or invalid batch."""
    position, size = 0, CHUNK_BYTES
    while data := memoryview(os.pread(descriptor, size, position)):
        whole = 0
        while whole + HEADER_SIZE <= len(data):
            header = read_header(data, whole)
            if header.batch_length < HEADER_SIZE - LOG_OVERHEAD or whole + header.size > len(data):
                break
            whole += header.size
        if whole:
            yield data[:whole]
            position, size = position + whole, CHUNK_BYTES
        elif len(data) < size or (needed := read_header(data).size) <= size:
            return
        else:
            size = needed
