"""What goes wrong in a cluster and when, drawn from a seed: the same seed gives the same schedule again."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    KILL = "kill"
    """SIGKILL for a broker, which is started again."""
    STOP = "stop"
    """SIGTERM: it hands over what it leads, and is started again."""
    PAUSE = "pause"
    """SIGSTOP, for less or more than a session: it wakes up and believes that it leads."""
    FROM_BROKERS = "cut from brokers"
    FROM_ONE = "cut from one broker, one way"
    FROM_CLIENTS = "cut from clients"
    FROM_ZOOKEEPER = "cut from ZooKeeper"
    """For less or more than a session."""
    ZOOKEEPER = "ZooKeeper killed"
    """SIGKILL for ZooKeeper, which is started again."""


_WEIGHTS = {
    Kind.KILL: 25,
    Kind.STOP: 10,
    Kind.PAUSE: 15,
    Kind.FROM_BROKERS: 12,
    Kind.FROM_ONE: 10,
    Kind.FROM_CLIENTS: 6,
    Kind.FROM_ZOOKEEPER: 12,
    Kind.ZOOKEEPER: 6,
}

ALL = tuple(Kind)
WITHOUT_ZOOKEEPER = tuple(kind for kind in Kind if kind not in (Kind.ZOOKEEPER, Kind.FROM_ZOOKEEPER))


@dataclass(frozen=True, slots=True)
class Fault:
    at: float
    """Seconds since the beginning."""
    kind: Kind
    broker: int
    """Whom it meets, counted from 0."""
    other: int
    """Another broker, where two are needed."""
    seconds: float
    """Until it is over."""

    def __str__(self) -> str:
        return f"{self.kind}: broker {self.broker + 1} for {self.seconds:.1f} s"


def draw(
    seed: int, seconds: float, brokers: int, session: float, every: float, kinds: Sequence[Kind] = ALL
) -> list[Fault]:
    """Faults in the order of time; they may overlap. Each kind comes once before any comes again."""
    chance = random.Random(seed)
    first = chance.sample(kinds, len(kinds))
    weights = [_WEIGHTS[kind] for kind in kinds]
    faults: list[Fault] = []
    at = every
    while at < seconds:
        kind = first.pop() if first else chance.choices(kinds, weights)[0]
        one, other = chance.sample(range(brokers), 2)
        faults.append(Fault(at, kind, one, other, chance.uniform(0.1, 2.0) * session))
        at += chance.uniform(0.5, 1.5) * every
    return faults
