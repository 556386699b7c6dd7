"""What a command asks of its caller: records to append, requests to answer, timers to keep, markers to write."""

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.txn.results import Result

if TYPE_CHECKING:
    from ottla.txn.records import Record


class Now(NamedTuple):
    """The time of a command, on both clocks: timers must not jump, what is stored must mean something later."""

    steady_ms: int
    wall_ms: int


class TimerKind(Enum):
    TIMEOUT = "timeout"
    """A transaction has been open for as long as its client allowed."""
    MARKERS = "markers"
    """It is time to try again what keeps a transaction from its end."""


class TimerKey(NamedTuple):
    kind: TimerKind
    transactional_id: str


class SetTimer(NamedTuple):
    """Replaces an earlier timer of the same key. The time is on the steady clock."""

    key: TimerKey
    at_ms: int


class CancelTimer(NamedTuple):
    """A timer of that key may not exist; one that fires all the same does no harm."""

    key: TimerKey


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


Token: TypeAlias = object
"""Whatever the caller uses to find the request again; never None."""


class Reply(NamedTuple):
    token: Token
    result: Result

    def failed(self, error: ErrorCode) -> "Reply":
        """The same request refused, because what the answer rests on could not be written."""
        return Reply(self.token, self.result.failed(response_error(error)))


class Outcome:
    """The effects of one command.

    The caller appends the records and tells the core that they are written (or not) before it gives the core
    another command; then it performs the timers. As soon as the records are committed it sends the replies and writes
    the markers: never before, since a marker cannot be taken back, and the decision to write it could still be lost.
    """

    __slots__ = ("markers", "messages", "otherwise", "records", "replies", "timers")

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.replies: list[Reply] = []
        self.timers: list[SetTimer | CancelTimer] = []
        self.markers: list[WriteMarkers] = []
        self.messages: list[str] = []
        self.otherwise: list[SetTimer] = []
        """For the core: the timers to set instead, when the records could not be written."""

    def reply(self, token: Token, result: Result) -> None:
        self.replies.append(Reply(token, result))

    def set_timer(self, key: TimerKey, at_ms: int) -> None:
        self.timers.append(SetTimer(key, at_ms))

    def cancel_timer(self, key: TimerKey) -> None:
        self.timers.append(CancelTimer(key))


_RESPONSE_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def response_error(append_error: ErrorCode) -> ErrorCode:
    """A producer knows nothing of the partition behind its id: the error in words that make it look again."""
    return _RESPONSE_ERRORS.get(append_error, append_error)
