"""How a piece of work uses the file."""

from enum import Enum


class Mode(Enum):
    READ = 0
    WRITE = 1
    BEAT = 2
    """A write without fsync: a heartbeat may be lost with the power."""
    POLL = 3
    """A read that runs only if another process has written. Otherwise its result is True."""
