"""Decisions about logs that are older than the store: logs of Apache Kafka, or of Ottla after the store was lost.

The directories of the logs name their topics, so the broker registers these topics in the empty store. Otherwise it
would treat the logs as those of deleted topics.
"""

from collections.abc import Iterable, Mapping

from ottla.cluster import znodes
from ottla.cluster.image import ClusterImage
from ottla.cluster.topics import controller_fence
from ottla.cluster.znodes import PartitionStateZnode, TopicZnode
from ottla.model import LeaderEpoch, TopicId, TopicPartition
from ottla.store.interface import Create, Op, Set


def adopt_topics(image: ClusterImage, broker_id: int, found: Mapping[str, tuple[TopicId, int, int]]) -> list[Op]:
    """`found` has, by topic name, the topic id, the number of partitions and the latest leader epoch in the logs.

    The logs do not have the configuration of the topics, so the topics get the defaults.
    """
    replicas = (broker_id,)
    ops: list[Op] = [controller_fence(image)]
    for name, (topic_id, partitions, epoch) in found.items():
        topic = TopicZnode(topic_id, dict.fromkeys(range(partitions), replicas), {}, {})
        ops.append(Create(znodes.topic_path(name), znodes.encode_topic(topic)))
        state = PartitionStateZnode(broker_id, LeaderEpoch(epoch + 1), replicas, image.controller_epoch)
        ops += [
            Create(znodes.partition_state_path(name, partition), znodes.encode_partition_state(state))
            for partition in range(partitions)
        ]
        ops.append(Create(znodes.config_path("topics", name), znodes.encode_config({})))
    return ops


def begin_new_epochs(image: ClusterImage, broker_id: int, partitions: Iterable[TopicPartition]) -> list[Op]:
    """Begin new leader epochs. A crash may have lost unsynced records, and new records get the offsets of these."""
    ops: list[Op] = [controller_fence(image)]
    for partition in partitions:
        state = image.partition(*partition)
        if state is not None and state.leader == broker_id:
            following = PartitionStateZnode(
                broker_id, LeaderEpoch(state.leader_epoch + 1), state.isr, image.controller_epoch
            )
            path = znodes.partition_state_path(*partition)
            ops.append(Set(path, znodes.encode_partition_state(following), state.version))
    return ops
