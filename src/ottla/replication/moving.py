"""Partitions move from one log directory of this broker to another while they are in use (KIP-113).

The broker copies the committed records into a second log in the target directory. When the copy has caught up, it
replaces the first log in one step on the event loop, so nothing is appended meanwhile. If the broker stops during a
move, the move starts over at the next start.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ottla.env.network import FileSlice
from ottla.errors import ErrorCode, KafkaError
from ottla.log.layout import can_be_moved
from ottla.records.header import iter_headers
from ottla.replication.throttling import ByteRate

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig
    from ottla.env.background import Background
    from ottla.env.clock import Clock
    from ottla.log.directory import LogDirectory
    from ottla.log.log import Log, LogRead
    from ottla.model import TopicPartition
    from ottla.replication.partition import Partition
    from ottla.replication.replicas import Replicas

logger = logging.getLogger("ottla.replicas")

_CHUNK = 1 << 20
_WAIT_SECONDS = 0.1
_RETRY_SECONDS = 1.0


class _Move(NamedTuple):
    target: LogDirectory
    task: asyncio.Task[None]


class _LogChangedError(Exception):
    """The log was truncated or replaced during the copy, so the copy may differ from it."""


class LogMoves:
    def __init__(
        self, replicas: Replicas, clock: Clock, background: Background, config: Callable[[], BrokerConfig]
    ) -> None:
        self._replicas = replicas
        self._background = background
        self._moves: dict[TopicPartition, _Move] = {}
        self._rate = ByteRate(
            "replica.alter.log.dirs.io.max.bytes.per.second", "alter.log.dirs.replication.quota.window", clock, config
        )

    def start(self) -> None:
        """Restart the moves that the last stop interrupted."""
        for directory in self._replicas.directories:
            for key in directory.interrupted_moves:
                partition = self._replicas.get(*key)
                if partition is not None and key not in directory.logs:
                    self._begin(partition, directory)

    def stop(self) -> None:
        for move in self._moves.values():
            move.task.cancel()

    def move(self, key: TopicPartition, path: str) -> None:
        """Move a partition to a log directory, in the background. Raises KafkaError.

        If this broker has no replica of the partition yet, a later one will be created in that directory.
        """
        if not can_be_moved(key):
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"the name of {key} is too long to be moved")
        target = next((each for each in self._replicas.directories if each.absolute_path == path), None)
        if target is None:
            raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is not a log directory of this broker")
        partition = self._replicas.get(*key)
        if partition is None:
            self._replicas.preferred_directories[key] = target
            raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE, f"{key} is not on this broker")
        under_way = self._moves.get(key)
        if under_way is not None:
            if under_way.target is target:
                return
            self._end(key)
        if key not in target.logs:
            self._begin(partition, target)

    def _begin(self, partition: Partition, target: LogDirectory) -> None:
        key = partition.topic_partition
        task = asyncio.ensure_future(self._run(partition, target))
        self._moves[key] = _Move(target, task)
        logger.info("moving %s to %s", key, target.path)

    def _end(self, key: TopicPartition) -> None:
        move = self._moves.pop(key)
        move.task.cancel()
        self._drop_copy(key, move.target)

    def _drop_copy(self, key: TopicPartition, target: LogDirectory) -> None:
        if key in target.future_logs:
            with contextlib.suppress(OSError):
                target.drop_future_log(key)

    async def _run(self, partition: Partition, target: LogDirectory) -> None:
        key = partition.topic_partition
        while self._replicas.get(*key) is partition and key not in target.logs:
            try:
                await self._copy_and_swap(partition, target)
            except _LogChangedError:
                logger.info("%s was truncated during its move; copying it again", key)
            except (OSError, KafkaError) as error:
                logger.error("cannot move %s to %s, will retry: %s", key, target.path, error)
                await asyncio.sleep(_RETRY_SECONDS)
            self._drop_copy(key, target)
        del self._moves[key]

    async def _copy_and_swap(self, partition: Partition, target: LogDirectory) -> None:
        key, source = partition.topic_partition, partition.log
        copy = _Copy(source, target.create_future_log(key, partition.topic_id, source.config))
        while self._replicas.get(*key) is partition:
            found = copy.next(partition.high_watermark)
            if found is None:
                copy.future.synced(await self._background.run(copy.future.sync))
                if copy.is_nearly_complete():
                    break
                await asyncio.sleep(_WAIT_SECONDS)
            elif self._rate.is_exceeded():
                await asyncio.sleep(_WAIT_SECONDS)
            else:
                copy.append(await self._background.run(_slice(found).read), partition)
                self._rate.record(found.size)
        if self._replicas.get(*key) is partition:
            self._swap(partition, copy, target)

    def _swap(self, partition: Partition, copy: _Copy, target: LogDirectory) -> None:
        """Copy the last records and replace the log. Without an `await`, so that both logs end at the same offset."""
        key, source = partition.topic_partition, copy.source
        while (found := copy.next(source.end_offset)) is not None:
            copy.append(_slice(found).read(), partition)
        copy.finish()
        moved = target.promote_future_log(key)
        moved.compaction.cleaned_offset = copy.cleaned_offset
        if source.epochs.entries:
            moved.assign_epoch(*source.epochs.entries[-1])
        partition.continue_with(moved)
        for directory in self._replicas.directories:
            if directory.logs.get(key) is source:
                directory.hand_over(key)
        logger.info("moved %s to %s", key, target.path)


def _slice(found: LogRead) -> FileSlice:
    assert found.file is not None
    return FileSlice(found.file, found.position, found.size)


class _Copy:
    """A log and its copy in the target directory."""

    def __init__(self, source: Log, future: Log) -> None:
        self.source = source
        self.future = future
        self.cleaned_offset = source.compaction.cleaned_offset
        self._generation = source.compaction.generation
        self._is_new = True

    def is_nearly_complete(self) -> bool:
        """Whether one chunk is left to copy. That is short enough to block the event loop."""
        found = self.next(self.source.end_offset)
        return found is None or found.next_offset >= self.source.end_offset

    def next(self, limit: int) -> LogRead | None:
        """The next chunk to copy below an offset; None if there is none."""
        if self.source.compaction.generation != self._generation:
            raise _LogChangedError
        offset = self.source.log_start_offset if self._is_new else self.future.end_offset
        if offset < self.source.log_start_offset:
            raise _LogChangedError
        found = self.source.read(offset, _CHUNK, limit)
        return None if found.file is None else found

    def append(self, data: bytes, partition: Partition) -> None:
        if self.source.compaction.generation != self._generation or partition.log is not self.source:
            raise _LogChangedError
        headers = [header for _, header in iter_headers(data)]
        if self._is_new:
            self._begin_at(headers[0].base_offset)
        size = sum(header.size for header in headers)
        self.future.append_as_follower(memoryview(bytearray(data))[:size], headers, partition.high_watermark)

    def _begin_at(self, offset: int) -> None:
        self._is_new = False
        if offset != self.future.end_offset:
            self.future.truncate_fully(offset)

    def finish(self) -> None:
        """Set the log start. It may be within the first batch, and may have moved during the copy."""
        if self._is_new:
            self._begin_at(self.source.log_start_offset)
        self.future.delete_records_before(self.source.log_start_offset)
