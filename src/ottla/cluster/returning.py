"""Decisions about brokers that have just registered: which leaderships they get back without waiting for the next
regular check (`leader.imbalance.check.interval.seconds`).

Each registration gets each partition back at most once. A broker that loses a leadership again while it stays
registered, because its disk fails for example, has to wait for the regular check, so leadership does not flap.
"""

from collections.abc import Collection

from ottla.cluster.elections import restore_preferred
from ottla.cluster.image import ClusterImage, PartitionState
from ottla.model import TopicPartition


class ReturningBrokers:
    def __init__(self) -> None:
        self._epochs: dict[int, int] = {}
        """The registration of each living broker, by broker id."""
        self._owed: dict[TopicPartition, int] = {}
        """Partitions that another broker led when their preferred leader registered, and that preferred leader."""

    @property
    def are_owed(self) -> bool:
        return bool(self._owed)

    def observe(self, image: ClusterImage) -> None:
        """Note who has registered and who has gone since the last image."""
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
        """This broker is not the controller any more; its successor looks after the brokers."""
        self._epochs.clear()
        self._owed.clear()

    def due(self, image: ClusterImage) -> list[tuple[TopicPartition, PartitionState]]:
        """The partitions to give back now, since their preferred leader is in sync, and their new states."""
        return [change for change in restore_preferred(image) if change[0] in self._owed]

    def settle(self, image: ClusterImage, given: Collection[TopicPartition]) -> None:
        """These were given back. Forget them, and those that are gone or led by their preferred leader anyway."""
        self._owed = {
            partition: owner
            for partition, owner in self._owed.items()
            if partition not in given
            and (state := image.partition(*partition)) is not None
            and state.replicas[0] == owner
            and state.leader != owner
        }
