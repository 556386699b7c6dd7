"""The effects of commands to transactions."""

from enum import Enum
from typing import NamedTuple

from ottla.coordinator_core import effects
from ottla.coordinator_core.effects import SetTimer
from ottla.model import TopicPartition
from ottla.txn.records import Record
from ottla.txn.results import Result


class TimerKind(Enum):
    TIMEOUT = "timeout"
    """A transaction has been open for as long as its client allowed."""
    MARKERS = "markers"
    """It is time to try again what keeps a transaction from its end."""


class TimerKey(NamedTuple):
    kind: TimerKind
    transactional_id: str


class Marker(NamedTuple):
    """The end of one transaction, as it is written into each of its partitions."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    protocol: int
    """WriteTxnMarkers 2 tells the leader: a marker of protocol 2 has an epoch that no record has (KIP-1228)."""


class WriteMarkers(NamedTuple):
    marker: Marker
    partitions: tuple[TopicPartition, ...]


class Outcome(effects.Outcome[Record, Result, TimerKey]):
    """Markers are written, like replies are sent, as soon as the records are committed: never before, since a marker
    cannot be taken back, and the decision to write it could still be lost.
    """

    __slots__ = ("markers", "otherwise")

    def __init__(self) -> None:
        super().__init__()
        self.markers: list[WriteMarkers] = []
        self.otherwise: list[SetTimer[TimerKey]] = []
        """For the core: the timers to set instead, when the records could not be written."""
