"""The parameters that a seed determines: the cluster, its settings and its clients."""

from __future__ import annotations

import random
from dataclasses import dataclass

TOPIC = "orders"
COPIES = "copies"
COPY_PARTITIONS = 2
SESSION_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    partitions: int
    durable: bool
    """Whether every append is synced before the acknowledgement (`flush.messages=1`). Then no power loss loses data."""
    chaos_seconds: float
    producers: int
    consumers: int
    min_insync: int
    members: int
    """Number of members of the group that reads the topic. 0 in some seeds, which run faster."""
    copies: bool
    """Whether the members copy the records to another topic, in transactions."""
    protocol: int
    """Version of the transaction protocol: 1, or 2 (KIP-890)."""
    shared_id: bool
    """Whether two members share a transactional id and keep fencing each other."""

    @property
    def topic_settings(self) -> dict[str, str]:
        settings = {"min.insync.replicas": str(self.min_insync)}
        if self.durable:
            settings["flush.messages"] = "1"
        return settings

    def broker_settings(self, broker_id: int) -> dict[str, str]:
        host = f"broker{broker_id}"
        return {
            "node.id": str(broker_id),
            "log.dirs": "/data",
            "listeners": f"PLAINTEXT://{host}:9092",
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": "3",
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.replication.factor": "3",
            "transaction.state.log.min.isr": str(self.min_insync),
            "min.insync.replicas": str(self.min_insync),
            **({"log.flush.interval.messages": "1"} if self.durable else {}),
            "zookeeper.session.timeout.ms": str(int(SESSION_SECONDS * 1000)),
            "replica.lag.time.max.ms": "2000",
            "replica.socket.timeout.ms": "2000",
            "replica.fetch.wait.max.ms": "1000",
            "auto.create.topics.enable": "false",
            "group.initial.rebalance.delay.ms": "0",
            "group.min.session.timeout.ms": "1000",
        }


def make_plan(seed: int) -> Plan:
    chance = random.Random(f"{seed} plan")
    members = chance.choice([0, 2, 2, 3])
    return Plan(
        seed=seed,
        partitions=chance.choice([1, 2, 3]),
        durable=chance.random() < 0.4,
        chaos_seconds=chance.uniform(6, 14),
        producers=2,
        consumers=1,
        min_insync=chance.choice([1, 2, 2]),
        members=members,
        copies=members > 0 and chance.random() < 0.7,
        protocol=chance.choice([1, 2]),
        shared_id=chance.random() < 0.15,
    )
