"""The placement of replicas on brokers, as a plan changes it step by step: counts, bytes and racks of each broker."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from ottla.model import TopicPartition


@dataclass(frozen=True, slots=True)
class PlacedPartition:
    name: TopicPartition
    replicas: tuple[int, ...]
    """The first one is the preferred leader."""
    size: int
    """Bytes of one replica."""
    leader: int | None


class Layout:
    """Replicas of partitions on the brokers that may have replicas. `move` and `prefer` keep all counters exact."""

    def __init__(self, racks: dict[int, str | None], partitions: Iterable[PlacedPartition]) -> None:
        """`racks` has every usable broker. If one of them has no rack, racks are ignored, as for new topics."""
        known = None not in racks.values()
        self.racks: dict[int, str | None] = {broker: rack if known else None for broker, rack in racks.items()}
        self.rack_count = len(set(self.racks.values()))
        self.replicas: dict[TopicPartition, list[int]] = {}
        self.size: dict[TopicPartition, int] = {}
        self.held: dict[int, dict[TopicPartition, None]] = {broker: {} for broker in sorted(racks)}
        """The partitions of each usable broker. A dict is a set that keeps its order, so that plans are repeatable."""
        self.led: dict[int, dict[TopicPartition, None]] = {broker: {} for broker in sorted(racks)}
        """The partitions whose preferred leader is this broker."""
        self.bytes: Counter[int] = Counter()
        self.of_topic: Counter[tuple[int, str]] = Counter()
        """Replicas of one topic on one broker."""
        for partition in partitions:
            self._add(partition)

    def _add(self, partition: PlacedPartition) -> None:
        name = partition.name
        self.replicas[name] = list(partition.replicas)
        self.size[name] = partition.size
        for broker in partition.replicas:
            if broker in self.held:
                self._hold(name, broker)
        if partition.replicas[0] in self.led:
            self.led[partition.replicas[0]][name] = None

    def _hold(self, name: TopicPartition, broker: int) -> None:
        self.held[broker][name] = None
        self.bytes[broker] += self.size[name]
        self.of_topic[broker, name.topic] += 1

    def move(self, name: TopicPartition, source: int, target: int) -> None:
        """Replace the replica on `source` by one on `target`, at the same place of the list."""
        replicas = self.replicas[name]
        assert target in self.held
        assert target not in replicas
        index = replicas.index(source)
        replicas[index] = target
        if source in self.held:
            del self.held[source][name]
            self.bytes[source] -= self.size[name]
            self.of_topic[source, name.topic] -= 1
        self._hold(name, target)
        if index == 0:
            self.led.get(source, {}).pop(name, None)
            self.led[target][name] = None

    def prefer(self, name: TopicPartition, broker: int) -> None:
        """Make one of the replicas the preferred leader: it changes places with the present one."""
        replicas = self.replicas[name]
        index = replicas.index(broker)
        before, replicas[0] = replicas[0], broker
        replicas[index] = before
        self.led[before].pop(name)
        self.led[broker][name] = None

    def count(self, broker: int) -> int:
        return len(self.held[broker])

    @property
    def mean_bytes(self) -> float:
        return sum(self.bytes[broker] for broker in self.held) / len(self.held)

    @property
    def mean_count(self) -> float:
        return sum(map(len, self.held.values())) / len(self.held)

    def racks_of(self, brokers: Collection[int]) -> set[str | None]:
        return {self.racks[broker] for broker in brokers if broker in self.racks}

    def may_move(self, name: TopicPartition, source: int, target: int) -> bool:
        """Whether the replica can move without leaving the partition in fewer racks."""
        replicas = self.replicas[name]
        if target in replicas:
            return False
        if self.rack_count == 1:
            return True
        others = self.racks_of([broker for broker in replicas if broker != source])
        return self.racks[target] not in others or self.racks[source] in others
