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
"""A file system brings many files to disk in one go."""


async def sync_logs(replicas: Replicas, background: Background) -> None:
    """Do in threads nearly all that a clean close of the logs has to do. A log that grows meanwhile is synced once more
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
            logger.warning("%s could not be synced before the broker closes it: %s", partition, error)
            if log.fsync_failed:
                partition.close()  # Nobody knows what is on disk, so nothing more may be acknowledged.
