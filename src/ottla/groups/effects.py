"""What a command asks of its caller: records to append, requests to answer, timers to keep, lines to log."""

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ottla.errors import ErrorCode
from ottla.groups.results import Result

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.groups.commands import Producer
    from ottla.groups.records import Record


class Now(NamedTuple):
    """The time of a command, on both clocks: timeouts must not jump, what is stored must mean something later."""

    steady_ms: int
    wall_ms: int


class TimerKind(Enum):
    SESSION = "session"
    """A member, or a client that was given a member id, has not been heard of."""
    JOIN = "join"
    """The wait for members to join is over: the initial delay, or the rebalance timeout."""
    SYNC = "sync"
    """The wait for members to fetch their assignment is over."""


class TimerKey(NamedTuple):
    kind: TimerKind
    group_id: str
    member_id: str = ""


class SetTimer(NamedTuple):
    """Replaces an earlier timer of the same key. The time is on the steady clock."""

    key: TimerKey
    at_ms: int


class CancelTimer(NamedTuple):
    """A timer of that key may not exist; one that fires all the same does no harm."""

    key: TimerKey


Token: TypeAlias = object
"""Whatever the caller uses to find the request again; never None."""


class Reply(NamedTuple):
    token: Token
    result: Result

    def failed(self, error: ErrorCode) -> "Reply":
        """The same request refused, because what the answer rests on could not be written."""
        return Reply(self.token, self.result.failed(response_error(error)))


Undo: TypeAlias = "Callable[[Outcome, ErrorCode, Now], None]"


class Outcome:
    """The effects of one command.

    The caller appends the records and tells the core that they are written (or not) before it gives the core
    another command; then it performs the timers, and sends the replies as soon as the records are committed.
    """

    __slots__ = ("messages", "producer", "records", "replies", "timers", "undo")

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.producer: Producer | None = None
        """Whose transaction the records belong to: if there is one, they are appended as its transactional batch."""
        self.replies: list[Reply] = []
        self.timers: list[SetTimer | CancelTimer] = []
        self.messages: list[str] = []
        self.undo: Undo | None = None
        """For the core: what to do, beside refusing the replies, when the records could not be written."""

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
    # A transaction could not be verified. Old producers know no such error; this one makes them try again, here.
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def response_error(append_error: ErrorCode) -> ErrorCode:
    """A client of a group knows nothing of the partition behind it: the error in words that make it look again."""
    return _RESPONSE_ERRORS.get(append_error, append_error)
