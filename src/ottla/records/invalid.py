"""The exceptions of this package."""

from collections.abc import Sequence

from ottla.errors import ErrorCode


class InvalidBatch(ValueError):  # noqa: N818 - the name says what was found
    """The bytes are not a valid record batch. `code` is the error code for the producer."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class RejectedRecords(InvalidBatch):
    """A well-formed batch with records that the topic does not accept (KIP-467)."""

    def __init__(self, rejected: Sequence[tuple[int, int | None]], total: int) -> None:
        """`rejected` lists the first of the `total` rejected records: the index in the batch, and the timestamp if it
        is out of range, or None if the key is missing."""
        timed = any(timestamp is not None for _, timestamp in rejected)
        code = ErrorCode.INVALID_TIMESTAMP if timed else ErrorCode.INVALID_RECORD
        super().__init__(code, f"{total} records were rejected")
        self.rejected = rejected
        self.total = total
