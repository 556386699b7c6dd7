"""Read the state of a cluster directly from its store and logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.cluster.znodes import PartitionStateZnode, decode_partition_state
from ottla.model import TopicPartition
from ottla.records.format import CONTROL_FLAG
from ottla.records.header import iter_headers
from ottla.records.reader import read_records

if TYPE_CHECKING:
    from ottla.replication.partition import Partition
    from ottla.store.memory import MemoryTree
    from sim.cluster import Cluster

_TOPICS = "/brokers/topics/"


class Stored(NamedTuple):
    offset: int
    value: bytes
    leader_epoch: int


def partition_states(tree: MemoryTree) -> dict[TopicPartition, PartitionStateZnode]:
    found = {}
    for path, node in tree.nodes.items():
        if path.startswith(_TOPICS) and path.endswith("/state"):
            topic, _, partition, _ = path[len(_TOPICS) :].split("/")
            found[TopicPartition(topic, int(partition))] = decode_partition_state(node.data)
    return found


def log_end(cluster: Cluster, partition: TopicPartition) -> int:
    """The highest end offset of all replicas. A new leader reports less at first."""
    replicas = [machine.broker.replicas.get(*partition) for machine in cluster.machines if machine.broker is not None]
    return max((replica.log.end_offset for replica in replicas if replica is not None), default=0)


def is_level(cluster: Cluster) -> bool:
    """Whether all replicas have the same end offset, and this is their high watermark."""
    brokers = [machine.broker for machine in cluster.machines if machine.broker is not None]
    for partition in partition_states(cluster.ensemble.tree):
        replicas = [replica for broker in brokers if (replica := broker.replicas.get(*partition)) is not None]
        if len({offset for it in replicas for offset in (it.high_watermark, it.log.end_offset)}) > 1:
            return False
    return True


def committed_bytes(partition: Partition) -> bytes:
    """All bytes below the high watermark."""
    log, offset, data = partition.log, partition.log.log_start_offset, b""
    while offset < partition.high_watermark:
        found = log.read(offset, 1 << 20, partition.high_watermark)
        if found.file is None:
            break
        data += found.file.read(found.size, found.position)
        offset = found.next_offset
    return data


def stored_records(data: bytes) -> list[Stored]:
    records = []
    view = memoryview(data)
    for position, header in iter_headers(view):
        if not header.attributes & CONTROL_FLAG:
            found = read_records(view[position : position + header.size])
            records += [Stored(it.offset, it.value or b"", header.partition_leader_epoch) for it in found]
    return records
