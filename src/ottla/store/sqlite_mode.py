"""How a piece of work uses the file."""

from enum import Enum


class Mode(Enum):
    READ = 0
    WRITE = 1
    BEAT = 2
    """A write that may be lost with the power: a heartbeat is worth no fsync."""
    POLL = 3
    """A read that is only done when another process has written; otherwise the answer is True."""
