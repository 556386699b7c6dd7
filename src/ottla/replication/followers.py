"""What a leader knows of its followers: how far each has come, and which of them are in sync.

The offset of a follower's fetch tells how far its log reaches. A follower is in sync as long as it was at the leader's
end at some moment of the last `replica.lag.time.max.ms` (KIP-16). The high watermark is the lowest end of an in-sync
replica. A replica counts from the moment the leader proposes it: the store may list it, and the controller may elect a
new leader from that list, before this leader hears of the change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

UNKNOWN_END = -1
"""The end of a follower that has not fetched yet in this leader's epoch. It keeps the high watermark where it is."""


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
            # It has now what was there at the time of its last fetch, so it had caught up then.
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
        """Take up what the store lists now, which also answers a pending request."""
        self._followers = {it: self._followers.get(it) or Follower(now) for it in followers}
        self.in_sync = frozenset(in_sync)
        self.proposed = None

    def propose(self, in_sync: frozenset[int]) -> None:
        """Note that the store is asked to list these. An earlier request may have been applied although its reply was
        lost, so the followers of both requests count."""
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

        Returns whether that is so. Otherwise nothing changes, and `fetches` must be called.
        """
        follower = self._followers.get(replica)
        if follower is None or replica not in self.in_sync or follower.leader_end_at_last_fetch != offset:
            return False
        if follower.end_offset != offset:
            return False
        follower.caught_up_at = follower.last_fetch = now
        return True

    def has(self, replica: int, offset: int) -> bool:
        """Whether a consumer can continue at an offset on this follower: it has the record, or that is its end."""
        follower = self._followers[replica]
        return follower.log_start_offset <= offset <= follower.end_offset

    def progress(self, replica: int) -> tuple[int, float, int]:
        """A sort key: the larger, the further a follower has come."""
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
        """The followers that should be in sync. To join, a follower must have everything up to `needed_end`: the high
        watermark, and the start of the leader's epoch, before which its log may still differ from the leader's."""
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
