"""How a job uses the file."""

from enum import Enum


class Mode(Enum):
    READ = 0
    WRITE = 1
    BEAT = 2
    """A heartbeat: a write without fsync, which a power failure may lose."""
    POLL = 3
    """A read that runs only if another process has written. Otherwise its result is True."""
