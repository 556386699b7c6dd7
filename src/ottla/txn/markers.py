"""What a leader's answer to a marker means for the transaction."""

from enum import Enum

from ottla.errors import ErrorCode


class Verdict(Enum):
    WRITTEN = "written"
    RETRY = "retry"
    FENCED = "fenced"
    """The partition has heard of a newer coordinator or producer. Nothing is left for this coordinator to do."""


_WRITTEN = {
    ErrorCode.NONE,
    # A partition that has no place for markers has no transaction either.
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    ErrorCode.UNSUPPORTED_VERSION,
}
_FENCED = {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED}


def judge(error: ErrorCode) -> Verdict:
    """Whatever is not final passes: a leader moves, a disk is replaced, a replica comes back."""
    if error in _WRITTEN:
        return Verdict.WRITTEN
    return Verdict.FENCED if error in _FENCED else Verdict.RETRY
