"""Prints docs/elections.md: the leaders that `failover` elects after brokers have died."""

from collections.abc import Sequence
from itertools import combinations

from ottla.cluster.failover import successor
from ottla.cluster.image import PartitionState
from ottla.cluster.znodes import NO_LEADER
from ottla.model import ControllerEpoch, LeaderEpoch

_HEAD = """# Leader elections

`make docs` generates this page by calling `cluster/failover.py`. A partition has the replicas 1, 2 and 3, in this
order, and broker 1 leads it. Each row has the in-sync replicas and the living brokers, then the new leader and the
new in-sync replicas. A new state has a new leader epoch, which fences the previous leader. "unchanged" means that the
controller writes nothing. The last column is for topics with `unclean.leader.election.enable=true`, where the result
differs.

| in sync | alive | new leader | new in sync | unclean election |
|---|---|---|---|---|"""

_TAIL = """
Before a broker stops, the controller elects other leaders by the same rules, as if the broker were dead. The broker
keeps leading the partitions that no other replica can lead, until it has stopped."""

REPLICAS = (1, 2, 3)


def document() -> str:
    lines = [_HEAD]
    for in_sync in ((1, 2, 3), (1, 2), (1, 3), (1,)):
        lines += [_row(in_sync, alive) for alive in _subsets(REPLICAS)]
    return "\n".join([*lines, _TAIL])


def _subsets(brokers: Sequence[int]) -> list[tuple[int, ...]]:
    return [some for size in range(len(brokers), -1, -1) for some in combinations(brokers, size)]


def _row(in_sync: tuple[int, ...], alive: tuple[int, ...]) -> str:
    before = PartitionState(0, 1, LeaderEpoch(7), REPLICAS, in_sync, (), (), ControllerEpoch(1), version=1)
    clean, unclean = successor(before, alive, lambda: False), successor(before, alive, lambda: True)
    cells = [_brokers(in_sync), _brokers(alive)]
    cells += ["unchanged", ""] if clean == before else [_leader(clean), _brokers(clean.isr)]
    cells.append("" if unclean == clean else f"{_leader(unclean)}, losing the records that only the others have")
    return f"| {' | '.join(cells)} |".replace("  ", " ")


def _leader(state: PartitionState) -> str:
    return "none" if state.leader == NO_LEADER else f"broker {state.leader}"


def _brokers(brokers: Sequence[int]) -> str:
    return ", ".join(map(str, brokers)) or "none"


if __name__ == "__main__":
    print(document())
