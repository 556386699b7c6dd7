"""Preferred leader elections for brokers that have just registered. The controller makes them without waiting for the
next regular check (`leader.imbalance.check.interval.seconds`).

A broker gets each partition back at most once per registration. If it loses the leadership again while it stays
registered, because its disk fails for example, it must wait for the regular check. So leadership does not flap.
"""

from collections.abc import Collection

from ottla.cluster.elections import restore_preferred
from ottla.cluster.image import ClusterImage, PartitionState
from ottla.model import BrokerEpoch, TopicPartition


class ReturningBrokers:
    def __init__(self) -> None:
        self._epochs: dict[int, BrokerEpoch] = {}
        """The epoch of each living broker, by broker id."""
        self._owed: dict[TopicPartition, int] = {}
        """Partitions that another broker led when their preferred leader registered, with the preferred leader."""

    @property
    def are_owed(self) -> bool:
        return bool(self._owed)

    def observe(self, image: ClusterImage) -> None:
        """Record the brokers that have registered or died since the last image."""
        epochs = {broker.broker_id: broker.epoch for broker in image.brokers.values()}
        if epochs == self._epochs:
            return
        arrived = {broker_id for broker_id, epoch in epochs.items() if self._epochs.get(broker_id) != epoch}
        self._owed = {partition: owner for partition, owner in self._owed.items() if owner in epochs}
        self._owed.update(
            (TopicPartition(topic.name, state.partition), state.replicas[0])
            for topic in image.topics.values()
            for state in topic.partitions
            if state.replicas[0] in arrived and state.leader != state.replicas[0]
        )
        self._epochs = epochs

    def forget(self) -> None:
        """This broker is not the controller any more. The new controller observes the brokers."""
        self._epochs.clear()
        self._owed.clear()

    def due(self, image: ClusterImage) -> list[tuple[TopicPartition, PartitionState]]:
        """The new states of the partitions whose preferred leader is in sync and can lead again."""
        return [change for change in restore_preferred(image) if change[0] in self._owed]

    def settle(self, image: ClusterImage, given: Collection[TopicPartition]) -> None:
        """Forget the partitions in `given`, deleted partitions, and those that their preferred leader leads already."""
        self._owed = {
            partition: owner
            for partition, owner in self._owed.items()
            if partition not in given
            and (state := image.partition(*partition)) is not None
            and state.replicas[0] == owner
            and state.leader != owner
        }
