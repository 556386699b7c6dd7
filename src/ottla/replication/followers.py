"""What a leader knows of its followers: how far each has come, and which of them are in sync.

A follower shows how far it has come by what it fetches next. It is in sync as long as it was at the leader's end at
some moment of the last `replica.lag.time.max.ms` (KIP-16). The high watermark is the lowest end among the in-sync
replicas, and a replica counts from the moment the leader proposes it: the store may already list it, and a new leader
may be chosen from that list, while this one has not heard of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

UNKNOWN_END = -1
"""Of a follower that has not fetched since this leader began: it holds the high watermark where it is."""


class Follower:
    __slots__ = ("caught_up_at", "end_offset", "last_fetch", "leader_end_at_last_fetch", "log_start_offset")

    def __init__(self, now: float) -> None:
        self.end_offset = UNKNOWN_END
        self.caught_up_at = now
        """A moment at which the follower was at the leader's end. At first it is given the benefit of the doubt."""
        self.last_fetch = now
        self.leader_end_at_last_fetch = 0
        self.log_start_offset = 0

    def fetches(self, offset: int, leader_end: int, now: float) -> None:
        if offset >= leader_end:
            self.caught_up_at = now
        elif offset >= self.leader_end_at_last_fetch:
            # At the time of its last fetch there was no more than what it has now.
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
        """What the store has been asked to list instead; None when there is no question open."""

    def update(self, followers: Iterable[int], in_sync: Collection[int], now: float) -> None:
        """What the store says now. It answers the question that was open, one way or the other."""
        self._followers = {it: self._followers.get(it) or Follower(now) for it in followers}
        self.in_sync = frozenset(in_sync)
        self.proposed = None

    def propose(self, in_sync: frozenset[int]) -> None:
        """The store is asked to list others. An earlier question may have been heard, so whom it named counts too."""
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
        """Whether a follower holds what stands at an offset, or is just behind it."""
        follower = self._followers[replica]
        return follower.log_start_offset <= offset <= follower.end_offset

    def progress(self, replica: int) -> tuple[int, float, int]:
        """The larger, the further a follower has come."""
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
        """Who should be in sync. To join, a follower must have everything up to `needed_end`: what is committed, and
        the beginning of the leader's epoch, before which its log may still differ from the leader's."""
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
