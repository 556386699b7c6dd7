"""Assigns replicas to brokers: Kafka's round robin over brokers, or over racks and brokers if every broker has a rack.

The preferred leaders go round the brokers from a starting point. The distance between the leader of a partition and its
followers grows by one with every full round, so that two brokers do not always share the same partitions.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ottla.cluster.image import Broker


@dataclass(frozen=True, slots=True)
class Start:
    """Where the round begins. It is random for a new topic, so that small topics are not all on the first broker."""

    broker_index: int
    shift: int


def assign_replicas(
    brokers: Iterable[Broker], partitions: int, replication_factor: int, start: Start, first_partition: int = 0
) -> list[tuple[int, ...]]:
    """The replicas of each partition, the preferred leader first. Raises ValueError if there are too few brokers.

    As in Kafka, partitions that are added later (`first_partition` above 0) count the rounds from zero.
    """
    known = sorted(brokers, key=lambda broker: broker.broker_id)
    if not 0 < replication_factor <= len(known):
        raise ValueError(f"{replication_factor} replicas do not fit on {len(known)} brokers")
    racks = {broker.rack for broker in known}
    if None in racks:
        ordered, rack_count = known, 1
    else:
        ordered, rack_count = _alternating_racks(known), len(racks)
    rounds_before = max(first_partition - 1, 0) // len(known)
    assigned = []
    for partition in range(first_partition, first_partition + partitions):
        shift = (start.shift + partition // len(known) - rounds_before) * rack_count
        leader_index = (start.broker_index + partition) % len(known)
        assigned.append(_replicas(ordered, rack_count, replication_factor, leader_index, shift))
    return assigned


def start_after(brokers: Iterable[Broker], first_leader: int) -> Start:
    """The start for partitions that are added to a topic: the broker that leads the first partition of the topic."""
    ids = sorted(broker.broker_id for broker in brokers)
    index = next((index for index, broker_id in enumerate(ids) if broker_id >= first_leader), 0)
    return Start(index, index)


def _alternating_racks(brokers: Sequence[Broker]) -> list[Broker]:
    """The brokers in an order that takes one broker from each rack in turn."""
    by_rack: dict[str, list[Broker]] = {}
    for broker in brokers:
        by_rack.setdefault(broker.rack or "", []).append(broker)
    columns = [by_rack[rack] for rack in sorted(by_rack)]
    longest = max(len(column) for column in columns)
    return [column[row] for row in range(longest) for column in columns if row < len(column)]


def _replicas(
    brokers: Sequence[Broker], rack_count: int, replication_factor: int, leader_index: int, shift: int
) -> tuple[int, ...]:
    count = len(brokers)
    chosen = [brokers[leader_index]]
    racks = {brokers[leader_index].rack}
    step = 0
    while len(chosen) < replication_factor:
        distance = 1 + (shift + step) % (count - 1)
        candidate = brokers[(leader_index + distance) % count]
        step += 1
        if candidate not in chosen and (candidate.rack not in racks or len(racks) >= rack_count):
            chosen.append(candidate)
            racks.add(candidate.rack)
    return tuple(broker.broker_id for broker in chosen)
