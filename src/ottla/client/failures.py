"""The errors of a client, and which of them are retriable."""

from ottla.errors import ErrorCode, KafkaError


class ClientError(Exception):
    """A request failed without a reply."""


class ConnectionFailed(ClientError):  # noqa: N818 - it says what happened
    """The client could not connect, the broker closed the connection, or a reply timed out."""


class UnsupportedRequest(ClientError):  # noqa: N818 - it says what happened
    """The broker and this client support no common version of the API."""


class GaveUp(ClientError):  # noqa: N818 - it says what happened
    """A retriable error lasted longer than `ClientSettings.retry_timeout`."""


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
"""Errors that end by themselves, or after the client has fetched new metadata."""


def is_retriable(error: Exception) -> bool:
    """Whether a retry, with new metadata, may succeed."""
    return isinstance(error, ConnectionFailed) or (isinstance(error, KafkaError) and error.code in RETRIABLE)


def check(code: int, what: str) -> None:
    """Raise KafkaError for the error code of a reply. `what` names its subject in the message."""
    if code != ErrorCode.NONE:
        raise KafkaError(error_code(code), f"{what}: {error_code(code).name}")


def error_code(code: int) -> ErrorCode:
    """The code as an ErrorCode. A code of a newer broker becomes UNKNOWN_SERVER_ERROR."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
