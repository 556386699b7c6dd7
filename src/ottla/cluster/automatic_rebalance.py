"""When the controller moves replicas by itself (`cluster.rebalance.enable`): a broker has joined, or is gone for good.

Decisions are made from the present image, so a new controller continues the work of the last one. Only two things are
remembered, and a new controller learns them again: since when a broker is missing, and which brokers have registered
since the cluster was balanced. Brokers that were there before this controller count as such if they have fewer replicas
than their share.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ottla.cluster.image import UNKNOWN_VERSION, ClusterImage, PartitionState
from ottla.cluster.layout import PlacedPartition
from ottla.cluster.reassignment import is_reassigning
from ottla.cluster.rebalance import Plan, PlanBroker, balance, drain
from ottla.cluster.znodes import NO_LEADER
from ottla.model import BrokerEpoch, TopicPartition


@dataclass(frozen=True, slots=True)
class RebalanceReason:
    joined: frozenset[int]
    """Brokers that should get their share."""
    gone: frozenset[int]
    """Brokers whose replicas should be on others."""

    def __str__(self) -> str:
        parts = [("joined", self.joined), ("gone for good", self.gone)]
        return ", ".join(f"broker {', '.join(map(str, sorted(ids)))} {what}" for what, ids in parts if ids)


class RebalanceWatch:
    """Watches brokers come and go, and says when replicas should move."""

    def __init__(self) -> None:
        self._epochs: dict[int, BrokerEpoch] = {}
        """The epoch of each living broker that was observed."""
        self._joined: set[int] = set()
        self._missing_since: dict[int, float] = {}
        """Brokers that have replicas and are not alive."""
        self._settled: tuple[frozenset[int], frozenset[int]] | None = None
        """Living and gone brokers for which nothing more could be moved."""

    def observe(self, image: ClusterImage, now: float) -> None:
        counts = Counter(replica for _, state in _partitions(image) for replica in state.replicas)
        epochs = {broker.broker_id: broker.epoch for broker in image.brokers.values()}
        if epochs != self._epochs:
            share = sum(counts.values()) // max(1, len(epochs))
            arrived = {broker for broker, epoch in epochs.items() if self._epochs.get(broker) != epoch}
            self._joined |= {broker for broker in arrived if counts[broker] < share}
            self._joined &= epochs.keys()
            self._epochs = epochs
        missing = counts.keys() - epochs.keys()
        self._missing_since = {broker: self._missing_since.get(broker, now) for broker in missing}

    def forget(self) -> None:
        """This broker is not the controller, or must not rebalance."""
        self._epochs.clear()
        self._joined.clear()
        self._missing_since.clear()
        self._settled = None

    def reason(self, image: ClusterImage, now: float, delay: float) -> RebalanceReason | None:
        """Why replicas should move now. None if there is no reason, or while other replicas move.

        A broker that joined waits until all brokers are back or gone for good, and all living replicas are in sync:
        copying would slow down their recovery.
        """
        if is_moving(image):
            return None
        gone = frozenset(broker for broker, since in self._missing_since.items() if now - since >= delay)
        if gone and (frozenset(image.brokers), gone) != self._settled:
            return RebalanceReason(frozenset(), gone)
        if self._joined and gone == self._missing_since.keys() and _all_in_sync(image):
            return RebalanceReason(frozenset(self._joined), gone)
        return None

    def seconds_until_gone(self, now: float, delay: float) -> float | None:
        """When the next missing broker counts as gone for good; None if none is missing."""
        left = [since + delay - now for since in self._missing_since.values() if now - since < delay]
        return min(left, default=None)

    def settle(self, image: ClusterImage, reason: RebalanceReason) -> None:
        """Nothing is left to move for this reason."""
        self._joined -= reason.joined
        if reason.gone:
            self._settled = frozenset(image.brokers), reason.gone


def is_moving(image: ClusterImage) -> bool:
    return any(is_reassigning(state) for _, state in _partitions(image))


def plan_for(reason: RebalanceReason, image: ClusterImage, sizes: Mapping[TopicPartition, int]) -> Plan:
    """The moves for a reason. `sizes` may lack partitions."""
    placed = [
        PlacedPartition(key, state.replicas, sizes.get(key, 0), state.leader)
        for key, state in _partitions(image)
        if state.leader != NO_LEADER and all(it in image.brokers or it in reason.gone for it in state.replicas)
    ]
    brokers = [PlanBroker(broker.broker_id, broker.rack, True) for broker in image.brokers.values()]
    return balance(brokers, placed) if reason.joined else drain(brokers, placed)


def _all_in_sync(image: ClusterImage) -> bool:
    return all(
        replica in state.isr
        for _, state in _partitions(image)
        for replica in state.replicas
        if replica in image.brokers
    )


def _partitions(image: ClusterImage) -> Iterator[tuple[TopicPartition, PartitionState]]:
    """All partitions except those with a damaged state, for which no decision may be made."""
    for topic in image.topics.values():
        for state in topic.partitions:
            if UNKNOWN_VERSION not in (topic.version, state.version):
                yield TopicPartition(topic.name, state.partition), state
