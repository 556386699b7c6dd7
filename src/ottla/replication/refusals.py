"""Remembers why appends were refused, which explains gaps in the sequence numbers that come next (decision 13).

A producer has several batches in flight. If the leader refuses the first of them for the moment, the next ones seem to
leave a gap. The producer sends all of them again, unless it is told that its sequence numbers are wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.log.producers import SequenceGapError

_GAP_SECONDS = 5.0
"""For how long after a refusal a gap is explained by it."""

_NOWHERE = -1


class Refusals:
    __slots__ = ("_last", "_write_failed_at")

    def __init__(self) -> None:
        self._last = (-_GAP_SECONDS, ErrorCode.NONE)
        """When appends were last refused for the moment, and why."""
        self._write_failed_at = _NOWHERE
        """Where the log ended when it last could not be written."""

    def note(self, reason: ErrorCode, now: float) -> None:
        self._last = now, reason

    def note_failed_write(self, log_end: int, now: float) -> None:
        self._write_failed_at = log_end
        self.note(ErrorCode.KAFKA_STORAGE_ERROR, now)

    def forget_failed_write(self) -> None:
        self._write_failed_at = _NOWHERE

    def last_write_failed(self, log_end: int) -> bool:
        """Whether nothing was written since a write failed."""
        return self._write_failed_at == log_end

    def explain(self, gap: SequenceGapError, now: float) -> KafkaError:
        """What to answer to a gap: the reason of the refusal that caused it, or the gap itself."""
        since, reason = self._last
        if gap.is_ahead and now - since < _GAP_SECONDS:
            return KafkaError(reason, f"{gap.message}, which was refused a moment ago")
        return gap
