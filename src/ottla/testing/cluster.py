"""Runs a cluster of brokers in this process. Each broker can be killed, restarted and paused on its own."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeAlias

from ottla.client.connection import connect
from ottla.client.failures import ClientError
from ottla.env.network import Address
from ottla.testing.clock import TravelClock
from ottla.testing.embedded import EmbeddedBroker
from ottla.testing.faults import TOOLS_CLIENT_ID, Faults
from ottla.testing.tools import Tools
from ottla.wire.api.metadata import MetadataRequest, MetadataResponse, MetadataResponsePartition

_DEFAULTS = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    # Kafka's default of 18 s is for machines apart from each other. A test waits for a paused broker to be replaced.
    "zookeeper.session.timeout.ms": "6000",
}
_POLL_SECONDS = 0.05
_MIN_ANSWER_SECONDS = 5.0
"""How long a broker may take to answer, however short the timeout is: a busy machine is not a broken broker."""


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

    def start(self, *, timeout: float = 30.0) -> None:
        """Start every broker. Returns when all of them know each other."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(len(self.brokers)) as threads:
            list(threads.map(EmbeddedBroker.start, self.brokers))
        self.bootstrap_servers = ",".join(broker.bootstrap_servers for broker in self.brokers)
        self._wait_for(_unknown_brokers, timeout)

    def stop(self) -> None:
        """Stop every broker cleanly, one after the other: brokers that stop at once wait for each other."""
        for broker in self.brokers:
            broker.stop()

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

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        replication_factor: int = -1,
        config: Mapping[str, str] | None = None,
        timeout: float = 10.0,
    ) -> None:
        """Create a topic. Returns when every running broker knows it."""
        super().create_topic(name, partitions, replication_factor=replication_factor, config=config, timeout=timeout)
        self._wait_for(partial(_brokers_without, name), timeout)

    def leader_of(self, topic: str, partition: int = 0, *, timeout: float = 30.0) -> EmbeddedBroker:
        """The broker that leads a partition. Waits while no running broker does."""
        leaders: dict[int, int] = {}

        def find(answers: Answers) -> list[str]:
            leaders.clear()
            for answer in answers.values():
                for found in _partitions(answer, topic):
                    if found.partition_index == partition:
                        leaders[found.leader_epoch] = found.leader_id
            leader = leaders[max(leaders)] if leaders else -1
            return [] if leader in answers else [f"{topic}-{partition} has no leader"]

        self._wait_for(find, timeout)
        return self.broker(leaders[max(leaders)])

    def coordinator_of(self, group: str, *, timeout: float = 30.0) -> EmbeddedBroker:
        """The broker that coordinates a consumer group."""
        admin = self._admin()  # Its futures end with it.
        described = admin.describe_consumer_groups([group], request_timeout=timeout)[group].result(timeout)
        return self.broker(described.coordinator.id)

    def wait_until_in_sync(self, *, timeout: float = 30.0) -> None:
        """Wait until every broker knows the others, and every partition has a leader and all its replicas in sync."""
        self._wait_for(lambda answers: _unknown_brokers(answers) + _out_of_sync(answers), timeout)

    def log(self) -> str:
        """The last lines of each broker."""
        return "\n".join(f"broker {number}:\n{broker.log()}" for number, broker in enumerate(self.brokers, 1))

    def _wait_for(self, problems_in: Callable[[Answers], list[str]], timeout: float) -> None:
        """Ask all brokers that run for their metadata, again and again, until there are no problems in it."""
        deadline = time.monotonic() + timeout
        while True:
            running = {
                number: broker
                for number, broker in enumerate(self.brokers, 1)
                if broker.is_running and not broker.is_paused
            }
            # In a thread, because the thread of the test may have a running event loop.
            with ThreadPoolExecutor(1) as thread:
                within = max(_MIN_ANSWER_SECONDS, deadline - time.monotonic())
                answers, failures = thread.submit(asyncio.run, _ask_all(running, within)).result()
            problems = failures + problems_in(answers)
            if not problems:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"after {timeout:g} s: {'; '.join(problems)}")
            time.sleep(_POLL_SECONDS)


Answers: TypeAlias = "Mapping[int, MetadataResponse]"
"""The metadata of each running broker, by the broker's id."""


async def _ask_all(brokers: Mapping[int, EmbeddedBroker], within: float) -> tuple[Answers, list[str]]:
    found = await asyncio.gather(*(_ask(broker, within) for broker in brokers.values()), return_exceptions=True)
    answers, failures = {}, []
    for node_id, answer in zip(brokers, found, strict=True):
        if isinstance(answer, MetadataResponse):
            answers[node_id] = answer
        elif isinstance(answer, ClientError):
            failures.append(f"broker {node_id} does not answer: {answer}")
        else:
            raise answer
    return answers, failures


async def _ask(broker: EmbeddedBroker, within: float) -> MetadataResponse:
    host, _, port = broker.bootstrap_servers.partition(",")[0].rpartition(":")
    connection = await connect(Address(host.strip("[]"), int(port)), client_id=TOOLS_CLIENT_ID, within=within)
    try:
        return await connection.call(MetadataRequest(topics=None), MetadataResponse, within=within)
    finally:
        connection.close()


def _partitions(answer: MetadataResponse, topic: str) -> list[MetadataResponsePartition]:
    return [partition for each in answer.topics if each.name == topic for partition in each.partitions]


def _unknown_brokers(answers: Answers) -> list[str]:
    known = {node_id: {broker.node_id for broker in answer.brokers} for node_id, answer in answers.items()}
    return [
        f"broker {node_id} does not know broker {other}"
        for node_id, brokers in known.items()
        for other in sorted(answers.keys() - brokers)
    ]


def _brokers_without(topic: str, answers: Answers) -> list[str]:
    return [f"broker {node_id} does not know {topic}" for node_id, it in answers.items() if not _partitions(it, topic)]


def _out_of_sync(answers: Answers) -> list[str]:
    return [
        f"{topic.name}-{partition.partition_index} has the leader {partition.leader_id}, and of its replicas "
        f"{partition.replica_nodes} only {partition.isr_nodes} are in sync, says broker {node_id}"
        for node_id, answer in answers.items()
        for topic in answer.topics
        for partition in topic.partitions
        if partition.leader_id < 0 or len(partition.isr_nodes) < len(partition.replica_nodes)
    ]


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
