"""The state of a cluster as its operator needs it, and the requests that move replicas and limit their rate."""

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ottla.cli.admin import Admin, Broker, Cluster
from ottla.cli.client import REQUEST_TIMEOUT, Client
from ottla.cli.command_error import CommandError
from ottla.cli.reassignment_requests import (
    LogDirectory,
    Ongoing,
    ReassignmentError,
    alter_reassignments,
    describe_cluster,
    list_reassignments,
    log_directories,
    move_to_directories,
)
from ottla.cluster.layout import PlacedPartition
from ottla.cluster.rebalance import Move, PlanBroker
from ottla.model import TopicPartition
from ottla.wire import WireError

BROKER_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
DYNAMIC_SOURCES = ("DYNAMIC_TOPIC_CONFIG", "DYNAMIC_BROKER_CONFIG")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ClusterState:
    cluster: Cluster
    racks: dict[int, str | None]
    directories: dict[int, list[LogDirectory]]
    """By broker. A broker that did not answer is missing."""
    ongoing: dict[TopicPartition, Ongoing]
    sizes: dict[TopicPartition, int] = field(default_factory=dict)
    """Bytes of one replica: the leader's, or the largest if the leader did not answer."""

    @property
    def brokers(self) -> list[Broker]:
        return self.cluster.brokers

    @property
    def alive(self) -> set[int]:
        return {broker.id for broker in self.brokers}

    def dead(self) -> dict[int, int]:
        """Brokers that have replicas and do not run, with the number of their replicas."""
        found: dict[int, int] = {}
        for replicas in self.cluster.partitions.values():
            for broker in replicas.assigned:
                if broker not in self.alive:
                    found[broker] = found.get(broker, 0) + 1
        return found

    def plan_brokers(self, without: Iterable[int] = ()) -> list[PlanBroker]:
        unusable = set(without)
        return [PlanBroker(it.id, self.racks.get(it.id), it.id not in unusable) for it in self.brokers]

    def placed(self, topics: Iterable[str] | None = None) -> list[PlacedPartition]:
        """The partitions for a plan. Without those that have no leader, because nothing can be copied from them."""
        wanted = None if topics is None else set(topics)
        return [
            PlacedPartition(key, tuple(replicas.assigned), self.sizes.get(key, 0), replicas.leader)
            for key, replicas in self.cluster.partitions.items()
            if replicas.leader is not None and (wanted is None or key.topic in wanted)
        ]


class ClusterAdmin:
    def __init__(self, bootstrap_server: str, client_settings: list[str] | None) -> None:
        client = Client(bootstrap_server, client_settings)
        self.admin = Admin(client)
        if not client.plaintext:
            raise CommandError(
                "This command connects to every broker without TLS or SASL; leave out -X security.protocol, and use "
                "the address of a plaintext listener."
            )

    def state(self) -> ClusterState:
        cluster, racks = self._ask_controller(describe_cluster)
        directories = {}
        for broker in cluster.brokers:
            with contextlib.suppress(OSError, WireError):
                directories[broker.id] = log_directories(broker.host, broker.port)
        ongoing = self._ask_controller(list_reassignments)
        return ClusterState(cluster, racks, directories, ongoing, _replica_sizes(cluster, directories))

    def cluster(self) -> Cluster:
        """The cluster as the controller knows it. The other brokers may learn of a change a little later."""
        return self._ask_controller(describe_cluster)[0]

    def ongoing(self) -> dict[TopicPartition, Ongoing]:
        return self._ask_controller(list_reassignments)

    def start(self, targets: Mapping[TopicPartition, Sequence[int] | None]) -> dict[TopicPartition, str]:
        """Start moves, or cancel them where the target is None. Returns the reason for each refused partition."""
        return self._ask_controller(lambda host, port: alter_reassignments(host, port, targets))

    def move_to_directories(self, broker_id: int, wanted: Mapping[TopicPartition, str]) -> dict[TopicPartition, str]:
        broker = self._broker(broker_id)
        try:
            return move_to_directories(broker.host, broker.port, wanted)
        except (OSError, WireError) as reason:
            raise CommandError(
                f"Broker {broker_id} at {broker.host}:{broker.port} did not answer: {reason}."
            ) from reason

    def directories(self, broker_id: int) -> list[LogDirectory]:
        broker = self._broker(broker_id)
        try:
            return log_directories(broker.host, broker.port)
        except (OSError, WireError) as reason:
            raise CommandError(
                f"Broker {broker_id} at {broker.host}:{broker.port} did not answer: {reason}."
            ) from reason

    def _broker(self, broker_id: int) -> Broker:
        found = [broker for broker in self.cluster().brokers if broker.id == broker_id]
        if not found:
            raise CommandError(f"Broker {broker_id} is not running.")
        return found[0]

    def copied(self, moves: Iterable[Move]) -> int:
        """Bytes that the new replicas of these moves have so far. Brokers that do not answer count as 0."""
        wanted: dict[int, set[TopicPartition]] = {}
        for move in moves:
            for broker_id in move.adding:
                wanted.setdefault(broker_id, set()).add(move.partition)
        total = 0
        for broker in self.cluster().brokers if wanted else ():
            if broker.id in wanted:
                with contextlib.suppress(OSError, WireError):
                    for directory in log_directories(broker.host, broker.port):
                        total += sum(size for key, size in directory.sizes.items() if key in wanted[broker.id])
        return total

    def set_throttle(self, moves: Sequence[Move], bytes_per_second: int) -> None:
        """Limit the copying for these moves on all brokers that take part."""
        leaders: dict[str, list[str]] = {}
        followers: dict[str, list[str]] = {}
        for move in moves:
            topic, number = move.partition
            leaders.setdefault(topic, []).extend(f"{number}:{broker}" for broker in move.before)
            followers.setdefault(topic, []).extend(f"{number}:{broker}" for broker in move.adding)
        for topic, sources in leaders.items():
            names = {LEADER_REPLICAS: ",".join(sources), FOLLOWER_REPLICAS: ",".join(followers[topic])}
            self.admin.alter_configs("topic", topic, names, [])
        involved = {broker for move in moves for broker in (*move.before, *move.after)}
        for broker in self.cluster().brokers:
            if broker.id in involved:
                self.admin.alter_configs(
                    "broker", str(broker.id), dict.fromkeys(BROKER_RATES, str(bytes_per_second)), []
                )

    def clear_throttle(self) -> bool:
        """Remove the throttle from all brokers and topics. Returns whether there was one."""
        cluster = self.cluster()
        found = False
        for kind, names, keys in (
            ("topic", cluster.topics, (LEADER_REPLICAS, FOLLOWER_REPLICAS)),
            ("broker", [str(broker.id) for broker in cluster.brokers], BROKER_RATES),
        ):
            # A request for the settings of brokers may name only one of them.
            groups = [names] if kind == "topic" else [[name] for name in names]
            for group in groups:
                for name, configs in self.admin.start_configs(kind, group)().items():
                    changed = [it.name for it in configs if it.name in keys and it.source in DYNAMIC_SOURCES]
                    if changed:
                        self.admin.alter_configs(kind, name, {}, changed)
                        found = True
        return found

    def _ask_controller(self, request: Callable[[str, int], T]) -> T:
        """Send a request to the controller. If it does not answer, ask the others: until its session ends they still
        name a dead controller, and every broker serves these requests."""
        deadline = time.monotonic() + REQUEST_TIMEOUT
        while True:
            known = self.admin.cluster()
            failure: Exception | None = None
            for broker in sorted(known.brokers, key=lambda broker: broker.id != known.controller):
                try:
                    return request(broker.host, broker.port)
                except ReassignmentError as refusal:
                    raise CommandError(f"Broker {broker.id} rejected the request: {refusal}") from refusal
                except (OSError, WireError) as reason:
                    failure = reason
            if time.monotonic() > deadline:
                raise CommandError(f"No broker of the cluster answered: {failure}.") from failure
            time.sleep(0.2)


def _replica_sizes(cluster: Cluster, directories: Mapping[int, Sequence[LogDirectory]]) -> dict[TopicPartition, int]:
    sizes: dict[TopicPartition, int] = {}
    for broker_id, found in directories.items():
        for directory in found:
            for key, size in directory.sizes.items():
                replicas = cluster.partitions.get(key)
                if replicas is not None and (replicas.leader == broker_id or replicas.leader not in directories):
                    sizes[key] = max(size, sizes.get(key, 0))
    return sizes
