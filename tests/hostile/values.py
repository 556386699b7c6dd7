"""Values for the fields of random requests: existing and unknown names, odd names, extreme numbers."""

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ottla.model import TopicId
from tests.hostile.batches import Batches, Producer

STABLE_TOPICS = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "recompressed": {"compression.type": "zstd"},
    "unpacked": {"compression.type": "uncompressed"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "small": {"max.message.bytes": "500"},
}
"""Topics that exist for the whole run; their settings decide whether the broker opens batches."""

SHORT_LIVED_TOPICS = [f"short-lived-{number}" for number in range(8)]
INTERNAL_TOPICS = ["__consumer_offsets", "__transaction_state"]
UNKNOWN_TOPICS = ["unknown", "never-created"]
ODD_NAMES = [
    "",
    ".",
    "..",
    "../../etc",
    "a/b",
    "x\0y",
    "a b",
    "line\nbreak",
    "[2026-11-18] ERROR forged\r\n",
    "é" * 100,
    "\N{SNOWMAN}",
    "\U0001f600" * 20,
    "n" * 249,
    "n" * 250,
    "l" * 32767,
]
GROUPS = [f"group-{number}" for number in range(40)]
TRANSACTIONS = [*(f"transaction-{number}" for number in range(24)), "a" * 40 + "!"]
CONFIG_KEYS = [
    "retention.ms",
    "cleanup.policy",
    "compression.type",
    "max.message.bytes",
    "message.timestamp.type",
    "min.insync.replicas",
    "flush.messages",
    "log.cleaner.backoff.ms",
    "consumer.session.timeout.ms",
    "match",
    "no.such.key",
    "",
]
"""None of these settings affects other topics or groups: a setting that did would disturb the bystander rightfully."""
CONFIG_VALUES = [
    "client_id=a{99999999999999}",
    "client_id=" + "(" * 900,
    "1",
    "0",
    "-1",
    "compact",
    "delete",
    "zstd",
    "gzip",
    "",
    "1e9",
    "100000",
    "9" * 30,
    "x\ny",
    None,
]

PATTERNS = [
    None,
    ".*",
    "transaction-1",
    "(",
    "((((){900}){900}){900}){900}",
    "(a+)+$",
    "(a{1000}){1000}",
    "a{99999999999999}",
    "(" * 900,
    "(a?){500}",
]

EXTREMES = {
    "?": (False, True),
    "b": (0, -1, 1, 2, 127, -128),
    "h": (0, -1, 1, 5, 2**15 - 1, -(2**15)),
    "i": (0, -1, 1, 2, 2**31 - 1, -(2**31), 2**30, 65536),
    "q": (0, -1, -2, -3, 1, 1000, 2**31, 2**63 - 1, -(2**63), 2**62, 2**53),
    "16s": (bytes(16), bytes(15) + b"\1", b"\xff" * 16),
}


@dataclass(slots=True)
class Member:
    id: str = ""
    generation: int = -1


@dataclass(slots=True)
class World:
    """What requests can refer to. Replies add to it."""

    topic_ids: dict[str, TopicId]
    members: dict[str, Member] = field(default_factory=dict)
    producers: dict[str, Producer] = field(default_factory=dict)
    sessions: deque[int] = field(default_factory=lambda: deque([0], 20))


class Scene:
    """Values of one request that belong together: a group and its member, a transaction and its producer."""

    __slots__ = ("batches", "group", "member", "producer", "rng", "transaction", "wild", "world")

    def __init__(self, rng: random.Random, world: World, batches: Batches) -> None:
        self.rng = rng
        self.world = world
        self.batches = batches
        self.wild = rng.choice((0.0, 0.0, 0.03, 0.3))
        """The probability that a field gets any value of its type."""
        self.group = rng.choice(GROUPS)
        self.member = world.members.get(self.group) or Member()
        self.transaction = rng.choice(TRANSACTIONS)
        self.producer = world.producers.get(self.transaction) or Producer()

    def topic(self) -> str:
        chance = self.rng.random()
        if chance < 0.7:
            return self.rng.choice(list(STABLE_TOPICS))
        if chance < 0.8:
            return self.rng.choice(SHORT_LIVED_TOPICS)
        return self.rng.choice(INTERNAL_TOPICS if chance < 0.87 else UNKNOWN_TOPICS if chance < 0.93 else ODD_NAMES)

    def changeable_topic(self) -> str:
        """One that may be deleted or altered without harm to the rest of the run."""
        pool = SHORT_LIVED_TOPICS if self.rng.random() < 0.8 else self.rng.choice((UNKNOWN_TOPICS, ODD_NAMES))
        return self.rng.choice(pool)

    def topic_id(self) -> bytes:
        rng = self.rng
        known = rng.choice(list(self.world.topic_ids.values()))
        return known if rng.random() < 0.85 else rng.choice((bytes(16), rng.randbytes(16)))

    def group_id(self) -> str:
        return self.group if self.rng.random() < 0.95 else self.rng.choice(ODD_NAMES)

    def member_id(self) -> str:
        return self.member.id if self.rng.random() < 0.85 else self.rng.choice(("", "nobody", *ODD_NAMES))

    def transactional_id(self) -> str:
        return self.transaction if self.rng.random() < 0.9 else self.rng.choice((*TRANSACTIONS, *ODD_NAMES))

    def partition(self) -> int:
        return self.rng.choice((0, 0, 0, 1, 1, 2, 3, -1, 2**31 - 1))

    def records(self) -> bytes | None:
        known = self.producer if self.rng.random() < 0.3 else Producer()
        sequence = self.rng.choice((0, 0, 1, 5, 2**31 - 1)) if known.id >= 0 else -1
        transactional = known.id >= 0 and self.rng.random() < 0.5
        return self.batches.draw(Producer(known.id, known.epoch, sequence, transactional))

    def maybe(self, *values: Any) -> Any:
        return self.rng.choice(values)


Draw = Callable[[Scene], Any]

_DELAYS: Draw = lambda scene: scene.maybe(-1, 0, 1, 5, 20)  # noqa: E731
_CONFIG_NAME: Draw = lambda scene: scene.rng.choice(CONFIG_KEYS)  # noqa: E731
_CHANGEABLE: Draw = lambda scene: scene.changeable_topic()  # noqa: E731
_OFFSET: Draw = lambda scene: scene.maybe(0, 0, 1, 5, 50, -1, 2**63 - 1)  # noqa: E731

DRAWS: dict[str, Draw] = {
    "name": Scene.topic,
    "topic": Scene.topic,
    "topic_name": Scene.topic,
    "topic_names": _CHANGEABLE,
    "topic_id": Scene.topic_id,
    "group_id": Scene.group_id,
    "groups": Scene.group_id,
    "groups_names": Scene.group_id,
    "key": Scene.group_id,
    "coordinator_keys": Scene.group_id,
    "member_id": Scene.member_id,
    "group_instance_id": lambda scene: scene.maybe(None, None, None, "static-1", "static-2"),
    "generation_id": lambda scene: scene.member.generation,
    "generation_id_or_member_epoch": lambda scene: scene.maybe(-1, -1, scene.member.generation),
    "member_epoch": lambda scene: scene.maybe(-1, 0, scene.member.generation),
    "protocol_type": lambda scene: scene.maybe("consumer", "consumer", "consumer", "connect", ""),
    "protocol_name": lambda scene: scene.maybe("range", "range", "sticky"),
    "session_timeout_ms": lambda scene: scene.maybe(1, 20, 100, 500, 6000),
    "rebalance_timeout_ms": lambda scene: scene.maybe(-1, 0, 1, 50, 200),
    "retention_time_ms": lambda scene: scene.maybe(-1, -1, 1000, 2**63 - 1, 2**62),
    "committed_metadata": lambda scene: scene.maybe(None, "", "metadata", "m" * 4096, "m" * 5000),
    "committed_offset": _OFFSET,
    "transactional_id": Scene.transactional_id,
    "transactional_ids": Scene.transactional_id,
    "v3_and_below_transactional_id": Scene.transactional_id,
    "producer_id": lambda scene: scene.producer.id,
    "v3_and_below_producer_id": lambda scene: scene.producer.id,
    "producer_epoch": lambda scene: scene.producer.epoch,
    "v3_and_below_producer_epoch": lambda scene: scene.producer.epoch,
    "transaction_timeout_ms": lambda scene: scene.maybe(1, 100, 5000, 60_000, 900_000, 2**31 - 1),
    "partition": Scene.partition,
    "partition_index": Scene.partition,
    "partition_indexes": Scene.partition,
    "partitions": Scene.partition,
    "index": Scene.partition,
    "records": Scene.records,
    "acks": lambda scene: scene.maybe(1, 1, -1, -1, 0, 5),
    "timeout_ms": lambda scene: scene.maybe(0, 1, 100, 10_000),
    "timestamp": lambda scene: scene.maybe(-1, -2, -3, -4, -5, -6, 0, 1000, 1010, 2**45, 2**63 - 1),
    "isolation_level": lambda scene: scene.maybe(0, 1),
    "fetch_offset": _OFFSET,
    "offset": _OFFSET,
    "current_leader_epoch": lambda scene: scene.maybe(-1, -1, 0, 1, 2**31 - 1),
    "partition_max_bytes": lambda scene: scene.maybe(0, 1, 1000, 1 << 20, 2**31 - 1),
    "max_wait_ms": _DELAYS,
    "min_bytes": lambda scene: scene.maybe(0, 1, 1, 100, 2**31 - 1),
    "max_bytes": lambda scene: scene.maybe(0, 1000, 1 << 20, 2**31 - 1),
    "session_id": lambda scene: scene.rng.choice(scene.world.sessions),
    "session_epoch": lambda scene: scene.maybe(-1, 0, 1, 2, 3),
    "replica_id": lambda scene: scene.maybe(-1, -1, -1, -2, 0, 1, 2, 2**31 - 1),
    "resource_type": lambda scene: scene.maybe(0, 2, 2, 4, 8, 16, 32, 99),
    "resource_types": lambda scene: scene.maybe(0, 2, 2, 4, 8, 16, 32, 99),
    "config_operation": lambda scene: scene.maybe(0, 0, 1, 2, 3, 9),
    "configuration_keys": _CONFIG_NAME,
    "value": lambda scene: scene.rng.choice(CONFIG_VALUES),
    "path": lambda scene: scene.maybe("/nonexistent", "", "..", "relative"),
    "broker_ids": lambda scene: scene.maybe(0, 1, 2, -1),
    "replicas": lambda scene: scene.maybe(0, 1, 1, 2, -1),
    "num_partitions": lambda scene: scene.maybe(-1, 0, 1, 1, 2, 3, 2**31 - 1),
    "count": lambda scene: scene.maybe(-1, 0, 1, 2, 3, 4, 2**31 - 1),
    "replication_factor": lambda scene: scene.maybe(-1, 0, 1, 1, 2, 2**15 - 1),
    "key_type": lambda scene: scene.maybe(0, 0, 1, 2, 9),
    "states_filter": lambda scene: scene.maybe("Stable", "Empty", "Dead", "nonsense", ""),
    "types_filter": lambda scene: scene.maybe("classic", "consumer", "nonsense"),
    "state_filters": lambda scene: scene.maybe("Ongoing", "Empty", "CompleteCommit", "nonsense"),
    "transactional_id_pattern": lambda scene: scene.rng.choice(PATTERNS),
}
"""By the name of a field. What is not here gets any value of its type."""

DRAWS_OF: dict[tuple[str, str], Draw] = {
    ("JoinGroupRequestProtocol", "name"): lambda scene: scene.maybe("range", "range", "sticky", ""),
    ("AlterableConfig", "name"): _CONFIG_NAME,
    ("CreatableTopicConfig", "name"): _CONFIG_NAME,
    ("AlterConfigsResource", "resource_name"): lambda scene: scene.maybe(
        "plain", *SHORT_LIVED_TOPICS, "1", "", scene.group, "x\ny"
    ),
    ("DescribeConfigsResource", "resource_name"): lambda scene: scene.maybe(scene.topic(), "1", "", scene.group),
    ("CreatableTopic", "name"): _CHANGEABLE,
    ("CreatePartitionsTopic", "name"): _CHANGEABLE,
    ("DeleteTopicState", "name"): lambda scene: scene.maybe(None, scene.changeable_topic()),
    ("DeleteTopicState", "topic_id"): lambda scene: scene.maybe(bytes(16), scene.rng.randbytes(16)),
    ("ReassignableTopic", "name"): _CHANGEABLE,
    ("AlterReplicaLogDirTopic", "name"): _CHANGEABLE,
    ("MetadataRequestTopic", "name"): lambda scene: scene.topic(),
    ("OffsetFetchRequestGroup", "member_id"): lambda scene: scene.maybe(None, scene.member.id),
}
"""By the struct and the name of a field, where the name alone does not say enough."""
