"""The faults of a cluster and their times, drawn from a seed. The same seed gives the same schedule."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    KILL = "kill"
    """SIGKILL for a broker, which is restarted."""
    STOP = "stop"
    """SIGTERM: the broker hands over its partitions, and is restarted."""
    PAUSE = "pause"
    """SIGSTOP, shorter or longer than a session. The broker continues and believes that it leads."""
    FROM_BROKERS = "cut from brokers"
    FROM_ONE = "cut from one broker, one way"
    FROM_CLIENTS = "cut from clients"
    FROM_ZOOKEEPER = "cut from ZooKeeper"
    """Shorter or longer than a session."""
    ZOOKEEPER = "ZooKeeper killed"
    """SIGKILL for ZooKeeper, which is restarted."""


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
    """Seconds since the start."""
    kind: Kind
    broker: int
    """The affected broker, counted from 0."""
    other: int
    """Another broker, for faults that need two."""
    seconds: float
    """The duration in seconds."""

    def __str__(self) -> str:
        return f"{self.kind}: broker {self.broker + 1} for {self.seconds:.1f} s"


def draw(
    seed: int, seconds: float, brokers: int, session: float, every: float, kinds: Sequence[Kind] = ALL
) -> list[Fault]:
    """Faults in the order of time. They may overlap. Each kind occurs once before any kind occurs again."""
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
