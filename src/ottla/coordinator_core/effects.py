"""The effects of a command: records to append, requests to answer, timers to set, lines to log."""

from typing import Generic, NamedTuple, Protocol, Self, TypeAlias, TypeVar

from ottla.errors import ErrorCode


class Now(NamedTuple):
    """The time of a command on both clocks: the steady clock for timers, the wall clock for what is stored."""

    steady_ms: int
    wall_ms: int


MAX_PORTION = 1000
"""Records in one portion of a decision that comes in portions: most portions fit into a batch of 1 MB."""

KeyT = TypeVar("KeyT")
RecordT = TypeVar("RecordT")


class SetTimer(NamedTuple, Generic[KeyT]):
    """Replaces an earlier timer of the same key. The time is on the steady clock."""

    key: KeyT
    at_ms: int


class CancelTimer(NamedTuple, Generic[KeyT]):
    """There may be no timer with that key. A timer that fires despite its cancellation does no harm."""

    key: KeyT


Token: TypeAlias = object
"""The caller finds the request again by its token, which is never None."""


class Result(Protocol):
    """The answer of a core, as plain data."""

    def failed(self, error: ErrorCode) -> Self: ...


ResultT = TypeVar("ResultT", bound=Result)


class Reply(NamedTuple, Generic[ResultT]):
    token: Token
    result: ResultT

    def failed(self, error: ErrorCode) -> "Reply[ResultT]":
        """A refusal instead of the answer, because the records that the answer depends on could not be written."""
        return Reply(self.token, self.result.failed(response_error(error)))


class Outcome(Generic[RecordT, ResultT, KeyT]):
    """The effects of one command.

    The caller appends the records and tells the core that they are written (or not) before it gives the core
    another command; then it performs the timers, and sends the replies as soon as the records are committed.
    """

    __slots__ = ("messages", "records", "replies", "timers")

    def __init__(self) -> None:
        self.records: list[RecordT] = []
        self.replies: list[Reply[ResultT]] = []
        self.timers: list[SetTimer[KeyT] | CancelTimer[KeyT]] = []
        self.messages: list[str] = []
        """With text of clients as it is: the caller escapes what it logs."""

    def reply(self, token: Token, result: ResultT) -> None:
        self.replies.append(Reply(token, result))

    def set_timer(self, key: KeyT, at_ms: int) -> None:
        self.timers.append(SetTimer(key, at_ms))

    def cancel_timer(self, key: KeyT) -> None:
        self.timers.append(CancelTimer(key))


_RESPONSE_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    # The transaction could not be verified. Old producers do not know this error; the other makes them retry here.
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def response_error(append_error: ErrorCode) -> ErrorCode:
    """The error for the client of a group or a transactional id. Errors of the partition behind it become errors that
    make the client look for the coordinator again."""
    return _RESPONSE_ERRORS.get(append_error, append_error)
