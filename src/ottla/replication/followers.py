"""The leader's state of its followers: the log end of each, and which of them are in sync.

The offset of a follower's fetch is the end of its log. A follower is in sync if it was at the leader's end at some time
during the last `replica.lag.time.max.ms` (KIP-16). The high watermark is the lowest log end of the in-sync replicas. A
proposed replica counts as in sync at once: the store may already list it, and the controller may elect it as leader,
before this leader learns of the change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

UNKNOWN_END = -1
"""The end of a follower that has not fetched yet in this leader's epoch. It holds the high watermark back."""


class Follower:
    __slots__ = ("caught_up_at", "end_offset", "last_fetch", "leader_end_at_last_fetch", "log_start_offset")

    def __init__(self, now: float) -> None:
        self.end_offset = UNKNOWN_END
        self.caught_up_at = now
        """The last time the follower is known to have been at the leader's end. A new leader assumes the present."""
        self.last_fetch = now
        self.leader_end_at_last_fetch = 0
        self.log_start_offset = 0

    def fetches(self, offset: int, leader_end: int, now: float) -> None:
        if offset >= leader_end:
            self.caught_up_at = now
        elif offset >= self.leader_end_at_last_fetch:
            # The follower now has everything up to the leader's end at its last fetch, so it was caught up then.
            self.caught_up_at = max(self.caught_up_at, self.last_fetch)
        self.end_offset = offset
        self.leader_end_at_last_fetch = leader_end
        self.last_fetch = now

    def is_behind(self, leader_end: int, oldest: float) -> bool:
        return self.end_offset != leader_end and self.caught_up_at < oldest


class Followers:
    def __init__(self, followers: Iterable[int], in_sync: Collection[int], now: float) -> None:
        self._followers = {follower: Follower(now) for follower in followers}
        self.in_sync = frozenset(in_sync)
        """The followers that the store lists as in sync."""
        self.proposed: frozenset[int] | None = None
        """The in-sync followers that the leader has asked the store to list; None when no request is pending."""

    def update(self, followers: Iterable[int], in_sync: Collection[int], now: float) -> None:
        """Apply the replicas that the store lists now. A pending proposal is settled."""
        self._followers = {it: self._followers.get(it) or Follower(now) for it in followers}
        self.in_sync = frozenset(in_sync)
        self.proposed = None

    def propose(self, in_sync: frozenset[int]) -> None:
        """Note that the leader asks the store to list these. An earlier request may have been applied although its
        reply was lost, so the followers of both requests count."""
        self.proposed = in_sync if self.proposed is None else in_sync | self.proposed

    @property
    def count(self) -> int:
        return len(self._followers)

    def __contains__(self, replica: int) -> bool:
        return replica in self._followers

    def fetches(self, replica: int, offset: int, leader_end: int, now: float, log_start_offset: int = 0) -> None:
        self._followers[replica].fetches(offset, leader_end, now)
        self._followers[replica].log_start_offset = log_start_offset

    def renew_if_caught_up(self, replica: int, offset: int, now: float) -> bool:
        """If an in-sync follower fetches from the leader's end for the second time, note only that it is alive.

        Otherwise change nothing and return False. The caller must then call `fetches`.
        """
        follower = self._followers.get(replica)
        if follower is None or replica not in self.in_sync or follower.leader_end_at_last_fetch != offset:
            return False
        if follower.end_offset != offset:
            return False
        follower.caught_up_at = follower.last_fetch = now
        return True

    def has(self, replica: int, offset: int) -> bool:
        """Whether a consumer can fetch at an offset from this follower: it is in the follower's log, or its end."""
        follower = self._followers[replica]
        return follower.log_start_offset <= offset <= follower.end_offset

    def progress(self, replica: int) -> tuple[int, float, int]:
        """A sort key: the follower with the largest key has replicated most."""
        follower = self._followers[replica]
        return follower.end_offset, follower.caught_up_at, replica

    def committed_offset(self, leader_end: int) -> int:
        """The highest offset that the leader and every current and pending ISR member have."""
        committed = leader_end
        followers = self._followers
        for replica in self.in_sync if self.proposed is None else self.in_sync | self.proposed:
            end = followers[replica].end_offset
            if end < committed:
                committed = end
        return committed

    def wanted(self, leader_end: int, needed_end: int, now: float, max_lag: float) -> frozenset[int]:
        """The followers that should be in sync. To join, a follower must have everything up to `needed_end`: up to the
        high watermark, and up to the start of the leader's epoch, before which its log may differ from the leader's.
        """
        oldest = now - max_lag
        return frozenset(
            replica
            for replica, follower in self._followers.items()
            if (
                not follower.is_behind(leader_end, oldest)
                if replica in self.in_sync
                else follower.end_offset >= needed_end
            )
        )
