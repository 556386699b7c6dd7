"""Finds a record of a partition by its timestamp. Runs in a thread, because batches must be decompressed."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from ottla.env.background import Pauses
from ottla.errors import ErrorCode, KafkaError
from ottla.log.scan import DamagedBatch
from ottla.model import MAX_TIMESTAMP
from ottla.records.invalid import InvalidBatch

if TYPE_CHECKING:
    from ottla.log.timestamp_search import TimestampOffset, TimestampSearch
    from ottla.model import LeaderEpoch
    from ottla.replication.partition import Partition

LOOKUP_SECONDS = 30.0
"""How long the lookups of one request may take. A batch header can have a maximum timestamp that none of its records
has, so a client could force the broker to open every batch of a topic."""


def lookup_deadline() -> float:
    return time.monotonic() + LOOKUP_SECONDS


async def find_timestamp(partition: Partition, timestamp: int, deadline: float) -> TimestampOffset | None:
    """The first record that is not older than a timestamp. For MAX_TIMESTAMP, the record with the largest timestamp.
    Raises KafkaError."""
    log, leader_epoch = partition.log, partition.leader_epoch
    try:
        searches = log.search_max_timestamp() if timestamp == MAX_TIMESTAMP else log.search_timestamp(timestamp)
        for search in searches:
            while not await partition.run_lookup(partial(_step, search, deadline)):
                pass
            _check_leads(partition, leader_epoch)
            if search.found is not None:
                return search.found
    except (DamagedBatch, InvalidBatch) as error:
        _check_leads(partition, leader_epoch)
        raise log.damaged(error) from error
    except OSError as error:
        # The file may be gone because the log moved to another directory.
        code = ErrorCode.KAFKA_STORAGE_ERROR if partition.log is log else ErrorCode.NOT_LEADER_OR_FOLLOWER
        _check_leads(partition, leader_epoch)
        raise KafkaError(code, f"{partition} cannot be read: {error}") from error
    return None


def _step(search: TimestampSearch, deadline: float) -> bool:
    return search.step(_LimitedPauses(deadline))


def _check_leads(partition: Partition, leader_epoch: LeaderEpoch) -> None:
    """A leader never truncates its log. So the result is valid if this broker led during the whole search."""
    if partition.is_offline or not partition.leads or partition.leader_epoch != leader_epoch:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{partition} got another leader during the search")


class _LimitedPauses(Pauses):
    __slots__ = ("_deadline",)

    def __init__(self, deadline: float) -> None:
        super().__init__()
        self._deadline = deadline

    def __call__(self) -> None:
        super().__call__()
        if self._monotonic() > self._deadline:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the search for the timestamp had to open too many batches")
