"""What can go wrong between a client and its cluster, and which of it passes."""

from ottla.errors import ErrorCode, KafkaError


class ClientError(Exception):
    """A request that has no answer."""


class ConnectionFailed(ClientError):  # noqa: N818 - it says what happened
    """The broker was not reached, hung up, or was silent for too long."""


class UnsupportedRequest(ClientError):  # noqa: N818 - it says what happened
    """The broker speaks no version of the API that this client speaks too."""


class GaveUp(ClientError):  # noqa: N818 - it says what happened
    """An error that usually passes lasted longer than the client was told to wait."""


RETRIABLE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.CORRUPT_MESSAGE,
    }
)
"""Errors that go away by themselves, or once the client has learned who leads now."""


def passes(error: Exception) -> bool:
    """Whether trying again, with fresh metadata, may help."""
    return isinstance(error, ConnectionFailed) or (isinstance(error, KafkaError) and error.code in RETRIABLE)


def check(code: int, what: str) -> None:
    """Raise the error of a reply, with the thing it is about."""
    if code != ErrorCode.NONE:
        raise KafkaError(error_code(code), f"{what}: {error_code(code).name}")


def error_code(code: int) -> ErrorCode:
    """The code by name; one that a newer broker invented counts as unknown."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
