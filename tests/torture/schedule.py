"""The faults and their times, drawn from a seed. The same seed gives the same schedule."""

import random
from dataclasses import dataclass
from enum import StrEnum

from tests.torture.plan import Plan


class Kind(StrEnum):
    KILL = "kill"
    """SIGKILL. The copier returns with its transactional id, which ends its open transaction."""
    REPLACE = "replace"
    """SIGKILL. The successor has another id, so only the timeout ends the open transaction."""
    TWIN = "twin"
    """A second process with the same transactional id, while the first one runs: the first is fenced."""
    PAUSE = "pause"
    """SIGSTOP for longer than a session: its partitions are reassigned, and then it continues in a transaction."""
    LEAVE = "leave"
    """SIGTERM: it commits, leaves the group, and returns."""
    BROKER = "broker"
    """SIGKILL for the broker, which is restarted."""


_WEIGHTS = {Kind.KILL: 40, Kind.REPLACE: 20, Kind.TWIN: 12, Kind.PAUSE: 12, Kind.LEAVE: 10, Kind.BROKER: 6}
_KAFKA_SHARE = 0.2
"""Kafka's copier has a fixed session timeout of ten seconds. The whole group waits for it after a kill."""


@dataclass(frozen=True, slots=True)
class Fault:
    at: float
    """Seconds since the start of the copiers."""
    kind: Kind
    slot: int
    """The affected copier. None for a fault of the broker."""
    seconds: float
    """The seconds until the process runs again or continues."""


def draw(plan: Plan, *, broker: bool) -> list[Fault]:
    """Faults in the order of time. Each kind occurs once before any kind occurs again, so that a short run has all
    kinds."""
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
