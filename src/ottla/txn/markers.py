"""Classifies the errors of writing a marker."""

from enum import Enum

from ottla.errors import ErrorCode


class Verdict(Enum):
    WRITTEN = "written"
    RETRY = "retry"
    FENCED = "fenced"
    """The partition has a newer coordinator or producer epoch. This coordinator must not retry."""


_WRITTEN = {
    ErrorCode.NONE,
    # A partition that does not support markers has no transactions either.
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    ErrorCode.UNSUPPORTED_VERSION,
}
_FENCED = {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED}


def judge(error: ErrorCode) -> Verdict:
    """Classify an error. All errors that are not listed above are temporary: the marker is written again."""
    if error in _WRITTEN:
        return Verdict.WRITTEN
    return Verdict.FENCED if error in _FENCED else Verdict.RETRY
