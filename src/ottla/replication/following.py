"""How a follower copies its leader's log: where it continues, what it truncates, what it appends.

The leader's log is authoritative. If the follower's log has diverged, the leader's reply to a fetch has the last epoch
that both logs may share, and the end offset of that epoch (KIP-595). The follower truncates its log there and fetches
again, until both logs agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from crc32c import crc32c

from ottla.errors import ErrorCode, KafkaError
from ottla.model import NO_LEADER_EPOCH
from ottla.records.format import ATTRIBUTES_AT
from ottla.records.header import iter_headers

if TYPE_CHECKING:
    import asyncio

    from ottla.records.header import BatchHeader
    from ottla.replication.partition import Partition
    from ottla.wire.api.fetch import PartitionData


class Position(NamedTuple):
    """The state of a follower's log in a fetch request."""

    offset: int
    last_epoch: int
    """The epoch of the follower's last record. The leader uses it to check whether the logs agree."""
    log_start_offset: int
    """The leader uses it to decide which offsets consumers may fetch from the follower (KIP-392)."""


def position(partition: Partition) -> Position:
    """The position at the end of the log. `last_epoch` is the epoch of the last record, not the latest epoch: the
    leader may not know an epoch in which this broker led and wrote nothing."""
    log = partition.log
    end = log.end_offset
    last_epoch = log.epochs.epoch_at(end - 1) if end > log.log_start_offset else NO_LEADER_EPOCH
    return Position(end, last_epoch, log.log_start_offset)


def take_over(partition: Partition, answer: PartitionData) -> asyncio.Future[None] | None:
    """Apply the leader's reply to a fetch. Raises KafkaError.

    The next fetch tells the leader that the records are stored, so it must wait for the future, if there is one.
    """
    synced = None
    if answer.diverging_epoch.epoch >= 0 or answer.diverging_epoch.end_offset >= 0:
        _cut(partition, answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset)
        return synced
    data = memoryview(answer.records or b"")  # type: ignore[arg-type]
    headers = _whole_batches(partition, data)
    size = sum(header.size for header in headers)
    if headers:
        log = partition.log
        if headers[0].base_offset < log.end_offset == log.log_start_offset:
            # The leader's log starts within a batch, and the leader sends the whole batch.
            partition.restart_at(headers[0].base_offset)
        synced = partition.append_from_leader(data[:size], headers, answer.high_watermark)
    else:
        partition.advance_as_follower(answer.high_watermark)
    if answer.log_start_offset > partition.log.log_start_offset:
        partition.log.delete_records_before(min(answer.log_start_offset, partition.log.end_offset))
    return synced


def _cut(partition: Partition, epoch: int, end_offset: int) -> None:
    """Truncate to the end of the last shared epoch. The logs can agree only up to the lower end of that epoch."""
    own = partition.log.end_offset_for_epoch(epoch)
    partition.truncate_to(end_offset if own.start_offset < 0 else min(end_offset, own.start_offset))


def _whole_batches(partition: Partition, data: memoryview) -> list[BatchHeader]:
    """The headers of the complete batches in a reply. The next fetch gets an incomplete last batch again."""
    headers = []
    for start, header in iter_headers(data):
        batch = data[start : start + header.size]
        if crc32c(batch[ATTRIBUTES_AT:]) != header.crc:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{partition}: the batch at {header.base_offset} is damaged")
        headers.append(header)
    return headers
