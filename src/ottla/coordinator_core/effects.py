"""The effects of a command: records to append, requests to answer, timers to set, lines to log."""

from typing import Generic, NamedTuple, Protocol, Self, TypeAlias, TypeVar

from ottla.errors import ErrorCode


class Now(NamedTuple):
    """The time of a command on both clocks: the steady clock for timers, the wall clock for stored timestamps."""

    steady_ms: int
    wall_ms: int


MAX_PORTION = 1000
"""The most records in one portion of a large decision. Most portions of this size fit into a batch of 1 MB."""

KeyT = TypeVar("KeyT")
RecordT = TypeVar("RecordT")


class SetTimer(NamedTuple, Generic[KeyT]):
    """Replaces an earlier timer with the same key. The time is on the steady clock."""

    key: KeyT
    at_ms: int


class CancelTimer(NamedTuple, Generic[KeyT]):
    """There may be no timer with this key. A timer that fires after its cancellation is harmless."""

    key: KeyT


Token: TypeAlias = object
"""Identifies a request to the caller. Never None."""


class Result(Protocol):
    """The result of a command, as plain data."""

    def failed(self, error: ErrorCode) -> Self: ...


ResultT = TypeVar("ResultT", bound=Result)


class Reply(NamedTuple, Generic[ResultT]):
    token: Token
    result: ResultT

    def failed(self, error: ErrorCode) -> "Reply[ResultT]":
        """An error reply to the same request, because the records that the result depends on could not be written."""
        return Reply(self.token, self.result.failed(response_error(error)))


class Outcome(Generic[RecordT, ResultT, KeyT]):
    """The effects of one command.

    The caller appends the records and reports the result to the core before the next command. Then it sets the timers,
    and sends the replies as soon as the records are committed.
    """

    __slots__ = ("messages", "records", "replies", "timers")

    def __init__(self) -> None:
        self.records: list[RecordT] = []
        self.replies: list[Reply[ResultT]] = []
        self.timers: list[SetTimer[KeyT] | CancelTimer[KeyT]] = []
        self.messages: list[str] = []
        """Log lines. They may have unescaped text of clients: the caller escapes them."""

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
    # The transaction could not be verified. Old producers do not know this error. The other one makes them retry.
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def response_error(append_error: ErrorCode) -> ErrorCode:
    """The error for the client, by the error of the append to the internal topic. Errors of the partition become errors
    after which the client looks up the coordinator again."""
    return _RESPONSE_ERRORS.get(append_error, append_error)
