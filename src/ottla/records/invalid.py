"""The exceptions of this package, in a module of their own so that every part can raise them."""

from collections.abc import Sequence

from ottla.errors import ErrorCode


class InvalidBatch(ValueError):  # noqa: N818 - the name says what was found
    """Bytes that are no acceptable record batch; `code` is what the producer is answered."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class RejectedRecords(InvalidBatch):
    """A well-formed batch with records that the topic does not accept (KIP-467)."""

    def __init__(self, rejected: Sequence[tuple[int, int | None]], total: int) -> None:
        """`rejected` has, for the first of the `total` rejected records, the index in the batch, and the timestamp if
        that is out of range; None stands for a missing key."""
        timed = any(timestamp is not None for _, timestamp in rejected)
        code = ErrorCode.INVALID_TIMESTAMP if timed else ErrorCode.INVALID_RECORD
        super().__init__(code, f"{total} records are not acceptable")
        self.rejected = rejected
        self.total = total
