"""Stores why appends were rejected, to explain the gaps in sequence numbers that follow (decision 13).

A producer has several batches in flight. If the leader rejects the first one with a retriable error, the next ones have
a gap in their sequence numbers. The producer retries all of them, unless the leader answers
OUT_OF_ORDER_SEQUENCE_NUMBER.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.log.producers import SequenceGapError

_GAP_SECONDS = 5.0
"""A gap in this time after a rejected append is attributed to the rejection."""

_NO_FAILED_WRITE = -1


class Refusals:
    __slots__ = ("_last", "_write_failed_at")

    def __init__(self) -> None:
        self._last = (-_GAP_SECONDS, ErrorCode.NONE)
        """The time and the reason of the last rejected append."""
        self._write_failed_at = _NO_FAILED_WRITE
        """The end of the log at the last failed write."""

    def note(self, reason: ErrorCode, now: float) -> None:
        self._last = now, reason

    def note_failed_write(self, log_end: int, now: float) -> None:
        self._write_failed_at = log_end
        self.note(ErrorCode.KAFKA_STORAGE_ERROR, now)

    def forget_failed_write(self) -> None:
        self._write_failed_at = _NO_FAILED_WRITE

    def last_write_failed(self, log_end: int) -> bool:
        """Whether no write has succeeded since the last failed one."""
        return self._write_failed_at == log_end

    def explain(self, gap: SequenceGapError, now: float) -> KafkaError:
        """The error for a batch after a gap: the reason of the recent rejection, or the gap itself."""
        since, reason = self._last
        if gap.is_ahead and now - since < _GAP_SECONDS:
            return KafkaError(reason, f"{gap.message}; an earlier batch was rejected a moment ago")
        return gap
