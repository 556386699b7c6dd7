"""Runs a cluster of brokers in this process. Each broker can be killed, restarted and paused on its own."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ottla.testing.clock import TravelClock
from ottla.testing.embedded import EmbeddedBroker
from ottla.testing.faults import Faults
from ottla.testing.tools import Tools

_DEFAULTS = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    # Kafka's default of 18 s is for machines apart from each other. A test waits for a paused broker to be replaced.
    "zookeeper.session.timeout.ms": "6000",
}
_POLL_SECONDS = 0.05


class EmbeddedCluster(Tools):
    """Running brokers. Pass `bootstrap_servers` to a Kafka client."""

    def __init__(self, data_dir: Path, settings: Mapping[str, str], size: int) -> None:
        super().__init__(TravelClock())
        self.data_dir = data_dir
        self.faults = Faults()
        """Faults that the first broker to get a fitting request uses up. Each broker also has `faults` of its own."""
        replicas = {"default.replication.factor": str(min(size, 3)), "min.insync.replicas": str(min(size, 2))}
        shared = {**_DEFAULTS, **replicas, "store.file": str(data_dir / "store.sqlite"), **settings}
        self.brokers = [
            EmbeddedBroker(
                data_dir / f"broker-{node_id}", {**shared, "node.id": str(node_id)}, self.clock, (self.faults,)
            )
            for node_id in range(1, size + 1)
        ]
        """The brokers in the order of their ids, which begin with 1."""

    def start(self) -> None:
        self.data_dir.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(len(self.brokers)) as threads:
            list(threads.map(EmbeddedBroker.start, self.brokers))
        self.bootstrap_servers = ",".join(broker.bootstrap_servers for broker in self.brokers)

    def stop(self) -> None:
        with ThreadPoolExecutor(len(self.brokers)) as threads:
            list(threads.map(EmbeddedBroker.stop, self.brokers))

    def kill(self) -> None:
        for broker in self.brokers:
            broker.kill()

    def recover(self) -> None:
        """Remove all faults, resume or start every broker, and wait until all replicas are in sync."""
        self.faults.clear()
        for broker in self.brokers:
            broker.recover()
        self.wait_until_in_sync()

    def broker(self, node_id: int) -> EmbeddedBroker:
        return self.brokers[node_id - 1]

    def leader_of(self, topic: str, partition: int = 0, *, timeout: float = 30.0) -> EmbeddedBroker:
        """The broker that leads a partition. Waits while there is none."""
        deadline = time.monotonic() + timeout
        while True:
            found = self._metadata(timeout, topic)[topic].partitions.get(partition)
            if found is not None and found.leader > 0:
                return self.broker(found.leader)
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic}-{partition} has no leader after {timeout:g} s")
            time.sleep(_POLL_SECONDS)

    def coordinator_of(self, group: str, *, timeout: float = 30.0) -> EmbeddedBroker:
        """The broker that coordinates a consumer group."""
        described = self._admin().describe_consumer_groups([group], request_timeout=timeout)[group].result()
        return self.broker(described.coordinator.id)

    def wait_until_in_sync(self, *, timeout: float = 30.0) -> None:
        """Wait until every partition has a leader, and all replicas of it are in sync."""
        deadline = time.monotonic() + timeout
        while behind := self._behind(timeout):
            if time.monotonic() > deadline:
                raise TimeoutError(f"not in sync after {timeout:g} s: {', '.join(behind)}")
            time.sleep(_POLL_SECONDS)

    def log(self) -> str:
        """The last lines of each broker."""
        return "\n".join(f"broker {number}:\n{broker.log()}" for number, broker in enumerate(self.brokers, 1))

    def _behind(self, timeout: float) -> list[str]:
        return [
            f"{name}-{index} (leader {partition.leader}, in sync {partition.isrs} of {partition.replicas})"
            for name, topic in self._metadata(timeout).items()
            for index, partition in topic.partitions.items()
            if partition.leader < 0 or len(partition.isrs) < len(partition.replicas)
        ]

    def _metadata(self, timeout: float, topic: str | None = None) -> Mapping[str, Any]:
        topics: Mapping[str, Any] = self._admin().list_topics(topic, timeout=timeout).topics
        return topics


@contextlib.contextmanager
def embedded_cluster(
    settings: Mapping[str, str] | None = None, *, size: int = 3, data_dir: str | Path | None = None
) -> Iterator[EmbeddedCluster]:
    """Run a cluster for the length of a `with` block.

    `settings` are Kafka's keys, for every broker. Without `data_dir`, the data is deleted afterwards. With `data_dir`,
    the data stays, and the next cluster on the same directory uses it.
    """
    with contextlib.ExitStack() as stack:
        is_temporary = data_dir is None
        if data_dir is None:
            data_dir = stack.enter_context(tempfile.TemporaryDirectory(prefix="ottla-"))
        cluster = EmbeddedCluster(Path(data_dir), settings or {}, size)
        # Data that is deleted anyway need not be synced, and nobody has to take over.
        stack.callback(cluster.kill if is_temporary else cluster.stop)
        cluster.start()
        yield cluster
