"""What goes wrong and when, drawn from a seed: the same seed gives the same schedule again."""

import random
from dataclasses import dataclass
from enum import StrEnum

from tests.torture.plan import Plan


class Kind(StrEnum):
    KILL = "kill"
    """SIGKILL; it comes back with its transactional id, which ends what it left open."""
    REPLACE = "replace"
    """SIGKILL; a successor with an id of its own comes, so only the timeout ends what was left open."""
    TWIN = "twin"
    """A second process with the same transactional id, while the first runs on: the first is fenced."""
    PAUSE = "pause"
    """SIGSTOP for longer than a session: its partitions are given away, and then it wakes up in a transaction."""
    LEAVE = "leave"
    """SIGTERM: it commits, says goodbye to the group, and comes back."""
    BROKER = "broker"
    """SIGKILL for the broker, which is started again."""


_WEIGHTS = {Kind.KILL: 40, Kind.REPLACE: 20, Kind.TWIN: 12, Kind.PAUSE: 12, Kind.LEAVE: 10, Kind.BROKER: 6}
_KAFKA_SHARE = 0.2
"""Kafka's own copier has a session of ten seconds built in, for which the whole group waits when it is killed."""


@dataclass(frozen=True, slots=True)
class Fault:
    at: float
    """Seconds since the copiers were started."""
    kind: Kind
    slot: int
    """Whom it meets; a fault of the broker meets nobody in particular."""
    seconds: float
    """Until it is over: the process runs again, or continues."""


def draw(plan: Plan, *, broker: bool) -> list[Fault]:
    """Faults in the order of time. Each kind comes once before any comes again, so that a short run meets them all."""
    chance = random.Random(plan.seed)
    kinds = [kind for kind in Kind if broker or kind is not Kind.BROKER]
    weights = [_WEIGHTS[kind] for kind in kinds]
    slots = range(plan.copiers + plan.kafka_copiers)
    shares = [1.0] * plan.copiers + [_KAFKA_SHARE] * plan.kafka_copiers
    first = chance.sample(kinds, len(kinds))
    faults: list[Fault] = []
    at = chance.uniform(0.5, 1.5) * plan.fault_every
    while at < plan.seconds:
        kind = first.pop() if first else chance.choices(kinds, weights)[0]
        session = plan.session_timeout_ms / 1000
        down = chance.uniform(1.2, 2.0) * session if kind is Kind.PAUSE else chance.uniform(0.0, 0.8)
        faults.append(Fault(at, kind, chance.choices(slots, shares)[0], down))
        at += chance.uniform(0.5, 1.5) * plan.fault_every
    return faults
