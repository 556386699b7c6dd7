"""Syncs the logs of a broker that is about to stop, while it still serves clients."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.env.background import Background
    from ottla.replication.partition import Partition
    from ottla.replication.replicas import Replicas

logger = logging.getLogger("ottla.replicas")

LOGS_AT_ONCE = 16
"""Number of logs to sync at the same time. A file system can combine many syncs."""


async def sync_logs(replicas: Replicas, background: Background) -> None:
    """Sync all logs in threads, so that the clean close afterwards is short. A log that grows meanwhile is synced again
    when it is closed."""
    partitions = iter([partition for partition in replicas if not partition.is_offline])
    await asyncio.gather(*(_sync_some(partitions, background) for _ in range(LOGS_AT_ONCE)))


async def _sync_some(partitions: Iterator[Partition], background: Background) -> None:
    for partition in partitions:
        log = partition.log
        try:
            preparation = log.prepare_to_close()
            if preparation is not None:
                await background.run(preparation.sync)
                log.finish_preparation(preparation)
        except OSError as error:
            logger.warning("cannot sync %s before the broker closes it: %s", partition, error)
            if log.fsync_failed:
                partition.close()  # It is unknown which records are on disk, so no more appends may be acknowledged.
