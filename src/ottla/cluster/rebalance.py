"""Plans which replicas move to which brokers: to balance a cluster, to drain a broker, or to replace one.

A plan is made in steps, in order of importance. Each step keeps what the earlier steps have achieved:

1. Replicas leave brokers that are dead or drained.
2. Every partition is in as many racks as possible.
3. The numbers of replicas of two brokers differ by at most one, as far as racks allow.
4. No broker has many more bytes than the others.
5. The numbers of preferred leaders of two brokers differ by at most one, as far as the replicas allow.

A replica moves only if its step gets closer to its aim, and the replication factor never changes. A balanced cluster
has an empty plan, and so has a cluster after its plan was carried out.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from ottla.cluster.layout import Layout, PlacedPartition
from ottla.model import TopicPartition

BYTES_TOLERANCE = 0.1
"""A broker may have this part more bytes than the mean before replicas move because of their size."""
SMALLEST_STEP = 0.02
"""A swap for the sake of bytes must bring two brokers closer by more than this part of the mean."""


@dataclass(frozen=True, slots=True)
class PlanBroker:
    id: int
    rack: str | None
    usable: bool
    """Whether the broker may have replicas: it is alive, and is not drained."""


@dataclass(frozen=True, slots=True)
class Move:
    partition: TopicPartition
    before: tuple[int, ...]
    after: tuple[int, ...]
    size: int
    """Bytes of one replica."""

    @property
    def adding(self) -> tuple[int, ...]:
        return tuple(broker for broker in self.after if broker not in self.before)

    @property
    def removing(self) -> tuple[int, ...]:
        return tuple(broker for broker in self.before if broker not in self.after)

    @property
    def bytes_to_copy(self) -> int:
        return len(self.adding) * self.size


@dataclass(frozen=True, slots=True)
class Plan:
    moves: tuple[Move, ...]
    """Partitions that get other replicas."""
    reorders: tuple[Move, ...]
    """Partitions that keep their replicas and get another preferred leader."""
    elections: tuple[TopicPartition, ...]
    """Partitions whose leader differs from their preferred leader after the plan."""
    unplaceable: tuple[TopicPartition, ...] = ()
    """Partitions that keep a replica on an unusable broker: they have more replicas than there are usable brokers."""

    @property
    def changes(self) -> tuple[Move, ...]:
        return self.moves + self.reorders

    @property
    def is_empty(self) -> bool:
        return not (self.moves or self.reorders or self.elections)

    @property
    def bytes_to_copy(self) -> int:
        return sum(move.bytes_to_copy for move in self.moves)


def balance(brokers: Iterable[PlanBroker], partitions: Sequence[PlacedPartition]) -> Plan:
    """Spread replicas and leaders evenly over the usable brokers."""
    layout, placeable, unplaceable = _layout(brokers, partitions)
    _evacuate(layout, placeable)
    _spread_over_racks(layout, placeable)
    fixed = set(unplaceable)
    while placeable and (_even_counts(layout, fixed) or _even_bytes(layout, fixed)):
        pass  # A swap for bytes can open a way for counts. Counts never get worse, so this ends.
    _even_leaders(layout, set(placeable))
    return _plan(layout, partitions, unplaceable)


def drain(brokers: Iterable[PlanBroker], partitions: Sequence[PlacedPartition]) -> Plan:
    """Move only what is on unusable brokers. The other replicas, and the leaders of other partitions, stay."""
    layout, placeable, unplaceable = _layout(brokers, partitions)
    moved = _evacuate(layout, placeable)
    _even_leaders(layout, moved)
    return _plan(layout, partitions, unplaceable, considered=moved)


def replace(brokers: Iterable[PlanBroker], partitions: Sequence[PlacedPartition], old: int, new: int) -> Plan:
    """Put the new broker in the place of the old one. A partition that the new broker has already gets another one."""
    known = [PlanBroker(it.id, it.rack, it.usable and it.id != old) for it in brokers]
    affected = [partition for partition in partitions if old in partition.replicas]
    layout, placeable, unplaceable = _layout(known, partitions)
    shared = []
    for partition in affected:
        if partition.name not in placeable:
            continue
        if new in partition.replicas:
            shared.append(partition.name)
        else:
            layout.move(partition.name, old, new)
    _evacuate(layout, shared, sources=[old])
    mine = {partition.name for partition in affected}
    return _plan(layout, partitions, [name for name in unplaceable if name in mine], considered=mine)


def _layout(
    brokers: Iterable[PlanBroker], partitions: Sequence[PlacedPartition]
) -> tuple[Layout, list[TopicPartition], list[TopicPartition]]:
    """The present layout, the partitions that fit on the usable brokers, and those that do not."""
    racks = {broker.id: broker.rack for broker in brokers if broker.usable}
    layout = Layout(racks, partitions)
    placeable = [partition.name for partition in partitions if len(partition.replicas) <= len(racks)]
    unplaceable = [partition.name for partition in partitions if len(partition.replicas) > len(racks)]
    return layout, placeable, unplaceable


def _plan(
    layout: Layout,
    partitions: Sequence[PlacedPartition],
    unplaceable: Sequence[TopicPartition],
    considered: Collection[TopicPartition] | None = None,
) -> Plan:
    """The differences between the layout and the present state. Elections are planned only for `considered`."""
    moves, reorders, elections = [], [], []
    for partition in partitions:
        after = tuple(layout.replicas[partition.name])
        change = Move(partition.name, partition.replicas, after, partition.size)
        if set(after) != set(partition.replicas):
            moves.append(change)
        elif after != partition.replicas:
            reorders.append(change)
        if partition.leader != after[0] and (considered is None or partition.name in considered):
            elections.append(partition.name)
    elections = [name for name in elections if name not in set(unplaceable)]
    return Plan(tuple(moves), tuple(reorders), tuple(elections), tuple(unplaceable))


def _evacuate(
    layout: Layout, partitions: Sequence[TopicPartition], sources: Collection[int] | None = None
) -> set[TopicPartition]:
    """Move replicas off brokers that are unusable, the largest first. Returns the partitions that were changed."""
    changed = set()
    for name in sorted(partitions, key=lambda name: -layout.size[name]):
        for source in list(layout.replicas[name]):
            if source not in layout.held and (sources is None or source in sources):
                layout.move(name, source, _best_target(layout, name, source))
                changed.add(name)
    return changed


def _best_target(layout: Layout, name: TopicPartition, source: int) -> int:
    """A usable broker in a rack that the partition lacks if there is one, then one with few replicas and few bytes."""
    replicas = layout.replicas[name]
    racks = layout.racks_of([broker for broker in replicas if broker != source])
    candidates = [broker for broker in layout.held if broker not in replicas]
    return min(
        candidates,
        key=lambda broker: (layout.racks[broker] in racks, layout.count(broker), layout.bytes[broker], broker),
    )


def _spread_over_racks(layout: Layout, partitions: Iterable[TopicPartition]) -> None:
    for name in partitions:
        replicas = layout.replicas[name]
        possible = min(len(replicas), layout.rack_count)
        while len(layout.racks_of(replicas)) < possible:
            racks = [layout.racks[broker] for broker in replicas]
            crowded = [broker for broker in replicas if racks.count(layout.racks[broker]) > 1]
            source = max(crowded, key=lambda broker: (layout.count(broker), layout.bytes[broker], broker))
            layout.move(name, source, _best_target(layout, name, source))


def _even_counts(layout: Layout, fixed: Collection[TopicPartition]) -> bool:
    """Move replicas from brokers with many to brokers with at least two fewer. Returns whether something moved."""
    moved = False
    while path := _counts_path(layout, fixed):
        # From the end: each step is valid in the state in which the path was found.
        for name, source, target in reversed(path):
            layout.move(name, source, target)
        moved = True
    return moved


Step = tuple[TopicPartition, int, int]
"""A partition, and the brokers from and to which it moves."""


def _counts_path(layout: Layout, fixed: Collection[TopicPartition]) -> list[Step]:
    """Steps that carry one replica from a full broker to one with two fewer, over others if racks demand it."""
    by_count = sorted(layout.held, key=lambda broker: (layout.count(broker), layout.bytes[broker], broker))
    for source in reversed(by_count):
        for target in by_count:
            if layout.count(source) - layout.count(target) < 2:
                break
            step = _best_step(layout, source, target, fixed)
            if step is not None:
                return [step]
    if layout.rack_count == 1:
        return []  # Without racks a single step is always possible.
    for source in reversed(by_count):
        goals = {broker for broker in by_count if layout.count(source) - layout.count(broker) >= 2}
        path = _path(source, goals, layout.held, lambda one, two: _best_step(layout, one, two, fixed)) if goals else []
        if path:
            return path
    return []


def _best_step(layout: Layout, source: int, target: int, fixed: Collection[TopicPartition]) -> Step | None:
    """The partition to move from one broker to another.

    Preferably of a topic with more replicas on the source, so that topics stay spread. Then its size should be near
    the share of the bytes that the target lacks: if the target lacks none, the smallest partition moves.
    """
    missing = layout.mean_bytes - layout.bytes[target]
    wanted = max(0.0, missing) / max(1.0, layout.mean_count - layout.count(target))
    candidates = [name for name in layout.held[source] if name not in fixed and layout.may_move(name, source, target)]
    if not candidates:
        return None
    name = min(
        candidates,
        key=lambda name: (
            layout.of_topic[source, name.topic] <= layout.of_topic[target, name.topic],
            abs(layout.size[name] - wanted),
            layout.replicas[name][0] == source,
            name,
        ),
    )
    return name, source, target


def _path(
    start: int, goals: Collection[int], brokers: Iterable[int], step: Callable[[int, int], Step | None]
) -> list[Step]:
    """The shortest chain of steps from a broker to one of the goals; empty if there is none."""
    arrived: dict[int, list[Step]] = {start: []}
    queue = [start]
    for broker in queue:
        for following in brokers:
            if following not in arrived and (found := step(broker, following)) is not None:
                arrived[following] = [*arrived[broker], found]
                if following in goals:
                    return arrived[following]
                queue.append(following)
    return []


def _even_bytes(layout: Layout, fixed: Collection[TopicPartition]) -> bool:
    """Exchange large replicas of the fullest broker for small ones of others. Returns whether something moved."""
    moved = False
    while True:
        heavy = max(layout.held, key=lambda broker: (layout.bytes[broker], broker))
        mean = layout.mean_bytes
        if layout.bytes[heavy] <= mean * (1 + BYTES_TOLERANCE):
            return moved
        lighter = sorted(layout.held, key=lambda broker: (layout.bytes[broker], broker))
        swap = next(
            (found for light in lighter if (found := _best_swap(layout, heavy, light, fixed)) is not None), None
        )
        if swap is None:
            return moved
        for name, source, target in swap:
            layout.move(name, source, target)
        moved = True


def _best_swap(layout: Layout, heavy: int, light: int, fixed: Collection[TopicPartition]) -> list[Step] | None:
    """The exchange that evens out the bytes of two brokers best. It copies at most twice what it evens out."""
    gap = layout.bytes[heavy] - layout.bytes[light]
    small = sorted(
        (layout.size[name], name)
        for name in layout.held[light]
        if name not in fixed and layout.may_move(name, light, heavy)
    )
    smallest = layout.mean_bytes * SMALLEST_STEP
    best: tuple[float, list[Step]] | None = None
    for name in layout.held[heavy]:
        if name in fixed or not layout.may_move(name, heavy, light):
            continue
        size = layout.size[name]
        at = bisect_left(small, (size - gap / 2,))
        for other_size, other in small[max(0, at - 1) : at + 1]:
            carried = size - other_size
            closer = min(carried, gap - carried)
            if closer <= smallest or size + other_size > 2 * closer:
                continue
            distance = abs(carried - gap / 2)
            if best is None or distance < best[0]:
                best = distance, [(name, heavy, light), (other, light, heavy)]
    return None if best is None else best[1]


def _even_leaders(layout: Layout, partitions: Collection[TopicPartition]) -> None:
    """Change preferred leaders of these partitions until no chain of changes makes the brokers more even."""

    def step(one: int, two: int) -> Step | None:
        for name in layout.led[one]:
            if name in partitions and two in layout.replicas[name]:
                return name, one, two
        return None

    improved = True
    while improved:
        improved = False
        by_leaders = sorted(layout.led, key=lambda broker: (len(layout.led[broker]), broker))
        for source in reversed(by_leaders):
            goals = {broker for broker in by_leaders if len(layout.led[source]) - len(layout.led[broker]) >= 2}
            path = _path(source, goals, by_leaders, step) if goals else []
            if path:
                for name, _, target in path:
                    layout.prefer(name, target)
                improved = True
                break
