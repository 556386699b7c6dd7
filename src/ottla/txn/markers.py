"""What a leader's reply to a marker means for the transaction."""

from enum import Enum

from ottla.errors import ErrorCode


class Verdict(Enum):
    WRITTEN = "written"
    RETRY = "retry"
    FENCED = "fenced"
    """The partition knows a newer coordinator or producer. This coordinator has nothing left to do."""


_WRITTEN = {
    ErrorCode.NONE,
    # A partition that cannot have markers has no transaction either.
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    ErrorCode.UNSUPPORTED_VERSION,
}
_FENCED = {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED}


def judge(error: ErrorCode) -> Verdict:
    """Every other error is temporary: the marker is written again."""
    if error in _WRITTEN:
        return Verdict.WRITTEN
    return Verdict.FENCED if error in _FENCED else Verdict.RETRY
