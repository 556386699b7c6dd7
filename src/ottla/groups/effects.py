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
    """A member, or a client that was given a member id, has not been heard of."""
    JOIN = "join"
    """The wait for members to join is over: the initial delay, or the rebalance timeout."""
    SYNC = "sync"
    """The wait for members to fetch their assignment is over."""


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
        """Whose transaction the records belong to: if there is one, they are appended as its transactional batch."""
        self.undo: Undo | None = None
        """For the core: what to do, beside refusing the replies, when the records could not be written."""
