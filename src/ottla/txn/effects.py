"""The effects of commands to transactions."""

from enum import Enum
from typing import NamedTuple

from ottla.coordinator_core import effects
from ottla.coordinator_core.effects import SetTimer
from ottla.model import LeaderEpoch, TopicPartition
from ottla.txn.records import Record
from ottla.txn.results import Result


class TimerKind(Enum):
    TIMEOUT = "timeout"
    """A transaction has reached its timeout."""
    MARKERS = "markers"
    """Markers, or the record that completes a transaction, must be written again."""


class TimerKey(NamedTuple):
    kind: TimerKind
    transactional_id: str


class Marker(NamedTuple):
    """The marker of one transaction, which is written to each of its partitions."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: LeaderEpoch
    committed: bool
    protocol: int
    """Sent by WriteTxnMarkers 2: the epoch of a protocol 2 marker is higher than that of its records (KIP-1228)."""


class WriteMarkers(NamedTuple):
    marker: Marker
    partitions: tuple[TopicPartition, ...]


class Outcome(effects.Outcome[Record, Result, TimerKey]):
    """The caller writes the markers and sends the replies when the records are committed. Before that the decision can
    be lost, and a marker cannot be undone.
    """

    __slots__ = ("markers", "timers_on_failure")

    def __init__(self) -> None:
        super().__init__()
        self.markers: list[WriteMarkers] = []
        self.timers_on_failure: list[SetTimer[TimerKey]] = []
        """For the core: the timers to set if the append of the records fails."""
