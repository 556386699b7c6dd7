"""The role of a replica, the in-sync replicas and the high watermark. Pure state: no I/O, no clock.

The high watermark is the end of the committed records: consumers read up to it. With several replicas it is the lowest
log end of the in-sync replicas. It does not advance while fewer replicas are in sync than `min.insync.replicas`
requires (KIP-966; Apache Kafka 4 does so whether or not eligible leader replicas are enabled).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, KafkaError
from ottla.model import NO_LEADER_EPOCH, LeaderEpoch

if TYPE_CHECKING:
    from ottla.replication.followers import Followers


class Leadership:
    """The state of one replica. `Partition` inherits from it, so that the hot path reads these attributes directly."""

    __slots__ = (
        "epoch_start",
        "followers",
        "high_watermark",
        "is_being_added",
        "leader_epoch",
        "leads",
        "state_version",
    )

    def __init__(self, high_watermark: int, log_end: int) -> None:
        self.leads = False
        self.leader_epoch = NO_LEADER_EPOCH
        self.epoch_start = log_end
        """Where the log ended when this broker began to lead in the current epoch."""
        self.state_version = 0
        """Version of the partition's state in the store that this replica has applied."""
        self.is_being_added = False
        """Whether a reassignment adds this replica."""
        self.followers: Followers | None = None
        """The other replicas, as their leader knows them. None for a follower, and for the only replica."""
        self.high_watermark = high_watermark
        """Changed by `commit_to` and `reset_high_watermark` only."""

    # Roles

    def begin_epoch_as_leader(self, leader_epoch: LeaderEpoch, followers: Followers | None, log_end: int) -> None:
        self.leads = True
        self.leader_epoch = leader_epoch
        self.followers = followers
        self.epoch_start = log_end

    def begin_epoch_as_follower(self, leader_epoch: LeaderEpoch) -> None:
        self.leads = False
        self.leader_epoch = leader_epoch
        self.followers = None

    def check_leader_epoch(self, epoch: int) -> None:
        """Reject a client that knows an older or a newer leader epoch; -1 means no check (KIP-320)."""
        if epoch == NO_LEADER_EPOCH or epoch == self.leader_epoch:
            return
        if epoch < self.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    # In-sync replicas

    @property
    def in_sync_count(self) -> int:
        """Number of replicas that the store lists as in sync, including the leader."""
        return 1 if self.followers is None else 1 + len(self.followers.in_sync)

    def effective_min_isr(self, min_insync_replicas: int) -> int:
        """`min.insync.replicas`, but not more than the partition has replicas."""
        return 1 if self.followers is None else min(min_insync_replicas, 1 + self.followers.count)

    def is_under_min_isr(self, min_insync_replicas: int) -> bool:
        followers = self.followers
        if followers is None:
            return False
        in_sync = 1 + len(followers.in_sync)
        return in_sync < min_insync_replicas and in_sync < 1 + followers.count

    def replicated_offset(self, own_end: int) -> int:
        """The highest offset that all in-sync replicas have. `own_end` is the end of the leader's own log."""
        return own_end if self.followers is None else self.followers.committed_offset(own_end)

    # The high watermark

    def commit_to(self, offset: int, log_end: int) -> None:
        """Move the high watermark forward. It never goes back and never passes the end of the log."""
        if not self.high_watermark <= offset <= log_end:
            raise AssertionError(
                f"the high watermark cannot move from {self.high_watermark} to {offset}: the log ends at {log_end}"
            )
        self.high_watermark = offset

    def reset_high_watermark(self, offset: int) -> None:
        """Set the high watermark after a follower has truncated its log. Only a truncation may lower it."""
        if self.leads:
            raise AssertionError("a leader never truncates its log")
        self.high_watermark = offset

    @property
    def knows_committed(self) -> bool:
        """Whether the high watermark has reached the end that the log had when this broker began to lead.

        Before that, the previous leader may have returned a higher high watermark to consumers (KIP-207).
        """
        return self.high_watermark >= self.epoch_start

    @property
    def needed_end(self) -> int:
        """The end that a follower must have reached to join the in-sync replicas."""
        return max(self.high_watermark, self.epoch_start)
