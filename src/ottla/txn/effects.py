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
    """A transaction has reached its timeout."""
    MARKERS = "markers"
    """Markers, or the record that completes a transaction, must be written again."""


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
    """WriteTxnMarkers 2 carries it: the epoch of a protocol 2 marker is higher than that of its records (KIP-1228)."""


class WriteMarkers(NamedTuple):
    marker: Marker
    partitions: tuple[TopicPartition, ...]


class Outcome(effects.Outcome[Record, Result, TimerKey]):
    """The caller writes markers, and sends replies, once the records are committed. Before that the decision could
    still be lost, and a marker cannot be undone.
    """

    __slots__ = ("markers", "otherwise")

    def __init__(self) -> None:
        super().__init__()
        self.markers: list[WriteMarkers] = []
        self.otherwise: list[SetTimer[TimerKey]] = []
        """For the core: the timers to set when the records could not be written."""
