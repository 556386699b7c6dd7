"""The one exception of this package, in a module of its own so that every part can raise it."""

from ottla.errors import ErrorCode


class InvalidBatch(ValueError):  # noqa: N818 - the name says what was found
    """Bytes that are no acceptable record batch; `code` is what the producer is answered."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
