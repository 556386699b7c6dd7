"""The state of a running stream: the end offsets of each micro-batch."""

import time
from collections.abc import Callable
from math import inf

from ottla.client.offsets import commit_offsets
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.spark.options import OptionError, SourceOptions
from ottla.spark.planning import first_offsets, initial_offsets, latest_offsets, plan_micro_batch
from ottla.spark.ranges import OffsetRange, limit_offsets
from ottla.spark.session import Session

Offsets = dict[TopicPartition, int]

_HAS_MEMBERS = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS})
"""The coordinator's errors for a commit by a non-member to a group that has members."""


class Stream:
    """One per query, in the process in which Spark plans the query."""

    def __init__(self, options: SourceOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._clock = clock
        self._opened: Session | None = None
        self._initial: Offsets | None = None
        self._target: Offsets | None = None
        self._committed: Offsets | None = None
        self._last_trigger = -inf
        self.latest: Offsets | None = None
        """The end offsets of the partitions at the last request."""

    @property
    def _session(self) -> Session:
        if self._opened is None:
            self._opened = Session(self._options.read)
        return self._opened

    def initial_offsets(self) -> Offsets:
        session = self._session
        self._initial = session.run(initial_offsets(session.client, self._options))
        return self._initial

    def stop_at_present(self) -> None:
        """`Trigger.AvailableNow`: records that arrive later are left to the next run."""
        self._target = self._ask_latest()

    def next_offsets(self, start: Offsets, max_rows: int | None, min_rows: int | None) -> Offsets:
        """The end offsets of the next micro-batch. The result equals `start` if no micro-batch is due."""
        self.finished(start)
        latest = self._target if self._target is not None else self._ask_latest()
        session = self._session
        begin = {**start, **session.run(first_offsets(session.client, latest.keys() - start.keys()))}
        available = sum(max(latest[each] - begin[each], 0) for each in latest)
        if min_rows is not None and self._target is None and self._must_wait(available, min_rows):
            return start
        self._last_trigger = self._clock()
        return latest if max_rows is None else limit_offsets(begin, latest, max_rows)

    def _must_wait(self, available: int, min_rows: int) -> bool:
        """Whether the batch is too small and the delay has not passed. As in Spark, a run's first batch never waits."""
        return available < min_rows and self._clock() < self._last_trigger + self._options.max_trigger_delay

    def plan(self, start: Offsets, end: Offsets) -> list[OffsetRange]:
        session = self._session
        return session.run(plan_micro_batch(session.client, self._options, start, end))

    def finished(self, offsets: Offsets) -> None:
        """All micro-batches up to these offsets are done. Commit the offsets if the query has a group."""
        group = self._options.group_id
        if group is None or not offsets or offsets in (self._committed, self._initial):
            return
        session = self._session
        try:
            session.run(commit_offsets(session.client, group, offsets))
        except KafkaError as error:
            if error.code not in _HAS_MEMBERS:
                raise
            raise OptionError(f"groupId {group} has members; give the query a group without consumers") from error
        self._committed = dict(offsets)

    def stop(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _ask_latest(self) -> Offsets:
        session = self._session
        self.latest = session.run(latest_offsets(session.client, self._options))
        return self.latest
