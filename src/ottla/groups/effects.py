"""The effects of commands to groups."""

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ottla.coordinator_core import effects
from ottla.coordinator_core.effects import Now
from ottla.groups.records import Record
from ottla.groups.results import Result

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.errors import ErrorCode
    from ottla.model import Producer


class TimerKind(Enum):
    SESSION = "session"
    """The session of a member, or of a client with a new member id, may have expired."""
    JOIN = "join"
    """The time for JoinGroup has ended: the initial delay, or the rebalance timeout."""
    SYNC = "sync"
    """The time for SyncGroup has ended."""


class TimerKey(NamedTuple):
    kind: TimerKind
    group_id: str
    member_id: str = ""


Undo: TypeAlias = "Callable[[Outcome, ErrorCode, Now], None]"


class Outcome(effects.Outcome[Record, Result, TimerKey]):
    __slots__ = ("producer", "undo")

    def __init__(self) -> None:
        super().__init__()
        self.producer: Producer | None = None
        """If set, the records are appended as a transactional batch of this producer."""
        self.undo: Undo | None = None
        """For the core: called if the append of the records fails, after the replies became errors."""
