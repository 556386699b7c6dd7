"""Brokers as processes on a real ZooKeeper or on one SQLite file, and a client that writes all the time."""

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient

from ottla.cli.zookeeper_server import ZooKeeperServer
from ottla.env.background import Threads
from ottla.env.clock import SystemClock
from ottla.env.disk import OsDisk
from ottla.store.interface import Node, Op, Store
from ottla.store.sqlite import SqliteStore
from ottla.store.zookeeper import ZooKeeperStore
from tests.compat.processes import BrokerProcess

TOPIC = "written"
CHROOT = "/cluster"
SESSION_SECONDS = 3.0
DEADLINE = 120.0
"""Much longer than anything takes on an idle machine."""


def eventually(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, f"not within {DEADLINE:g} s: {what}"
        time.sleep(0.02)


class Partition(NamedTuple):
    leader: int
    isr: list[int]


class ProcessCluster:
    """Brokers numbered from 1. Each may have its own address of ZooKeeper, such as a proxy's."""

    def __init__(
        self,
        directory: Path,
        zookeeper: ZooKeeperServer | None,
        brokers: int,
        via: Mapping[int, str],
        session_seconds: float,
        settings: Mapping[str, str],
    ) -> None:
        self._zookeeper = zookeeper
        self._store_file = directory / "store.sqlite"
        self.brokers = {
            broker_id: BrokerProcess(
                directory / f"broker-{broker_id}",
                {
                    "node.id": str(broker_id),
                    **self._store(via.get(broker_id)),
                    "zookeeper.session.timeout.ms": str(round(session_seconds * 1000)),
                    "offsets.topic.num.partitions": "1",
                    "auto.leader.rebalance.enable": "false",
                    **settings,
                },
            )
            for broker_id in range(1, brokers + 1)
        }

    def _store(self, address: str | None) -> Mapping[str, str]:
        if self._zookeeper is None:
            return {"store.file": str(self._store_file)}
        return {"zookeeper.connect": (address or self._zookeeper.address) + CHROOT}

    @property
    def zookeeper(self) -> ZooKeeperServer:
        assert self._zookeeper is not None
        return self._zookeeper

    def write(self, *ops: Op) -> None:
        """Change the store like a tool."""

        async def write() -> None:
            async with self._open_store() as store:
                await store.commit(ops)

        asyncio.run(write())

    def read(self, path: str) -> bytes:
        """The data of a node of the store."""

        async def read() -> Node | None:
            async with self._open_store() as store:
                return await store.get(path)

        node = asyncio.run(read())
        assert node is not None
        return node.data

    @contextlib.asynccontextmanager
    async def _open_store(self) -> AsyncIterator[Store]:
        store: Store
        with contextlib.closing(Threads()) as threads:
            if self._zookeeper is None:
                store = SqliteStore(str(self._store_file), SystemClock(), threads, OsDisk())
            else:
                store = ZooKeeperStore(self._zookeeper.address + CHROOT, SystemClock(), threads)
            await store.start()
            yield store
            await store.close()

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.bootstrap_servers for broker in self.brokers.values())

    def start(self) -> None:
        with ThreadPoolExecutor(len(self.brokers)) as pool:
            list(pool.map(BrokerProcess.start, self.brokers.values()))

    def create_topic(self, name: str = TOPIC) -> None:
        """Broker 1 leads it."""
        topic = NewTopic(name, 1, replica_assignment=[sorted(self.brokers)], config={"min.insync.replicas": "2"})
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        admin.create_topics([topic])[name].result(DEADLINE)
        self.wait_until_in_sync(name)

    def partition(self, topic: str = TOPIC, asked: int | None = None) -> Partition | None:
        """The partition's state as all brokers, or one of them, see it; None if no broker answers."""
        servers = self.bootstrap_servers if asked is None else self.brokers[asked].bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        try:
            found = admin.list_topics(topic, timeout=5).topics[topic].partitions
        except KafkaException:
            return None
        return Partition(found[0].leader, sorted(found[0].isrs)) if 0 in found else None

    def leader(self) -> int:
        found: list[Partition] = []

        def is_led() -> bool:
            partition = self.partition()
            if partition is not None and partition.leader > 0:
                found.append(partition)
            return bool(found)

        eventually(is_led, "the partition has a leader")
        return found[0].leader

    def wait_until_in_sync(self, topic: str = TOPIC) -> None:
        everybody = sorted(self.brokers)

        def is_in_sync() -> bool:
            partition = self.partition(topic)
            return partition is not None and partition.isr == everybody

        eventually(is_in_sync, "all replicas are in sync")

    @contextlib.contextmanager
    def tree(self) -> Iterator[KazooClient]:
        """The registrations of the brokers in ZooKeeper."""
        client = KazooClient(self.zookeeper.address + CHROOT)
        client.start()
        try:
            yield client
        finally:
            client.stop()
            client.close()

    def wait_until_all_sessions_are_over(self) -> None:
        """After all brokers were killed, wait until their sessions end. Before that, the first one to return considers
        the others alive."""
        with self.tree() as tree:
            eventually(lambda: not tree.get_children("/brokers/ids"), "the sessions of all brokers are over")

    def wait_for_log(self, broker_id: int, text: str) -> None:
        eventually(lambda: text in self.brokers[broker_id].log(), f"broker {broker_id} says {text!r}")

    def stored(self, broker_id: int) -> bytes:
        """The files of the partition on one broker's disk."""
        return b"".join(
            path.read_bytes() for path in sorted((self.brokers[broker_id].data_dir / f"{TOPIC}-0").glob("*.log"))
        )

    def wait_until_equal(self) -> None:
        """All replicas have the same bytes, after writes have ended and followers have caught up."""
        eventually(lambda: len({self.stored(broker_id) for broker_id in self.brokers}) == 1, "all logs are the same")

    def values(self) -> list[int]:
        """All records that a consumer reads."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "group.id": "check",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        try:
            _, end = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=DEADLINE)
            consumer.assign([TopicPartition(TOPIC, 0, 0)])
            found: list[int] = []
            deadline = time.monotonic() + DEADLINE
            while len(found) < end:
                assert time.monotonic() < deadline, f"only {len(found)} of {end} records could be read"
                found += [int(message.value()) for message in consumer.consume(1000, 1.0) if message.error() is None]
            return found
        finally:
            consumer.close()


class Writer:
    """Writes 0, 1, 2, ... with acks=all and idempotence, and stores which were acknowledged and when."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.acknowledged: list[int] = []
        self.failures: list[str] = []
        self._last = time.monotonic()
        self._longest_silence = 0.0
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 1,
                # A paused broker keeps its connections. By default a client waits a minute for its reply.
                "socket.timeout.ms": 3000,
                "request.timeout.ms": 2000,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._write, daemon=True)

    def __enter__(self) -> "Writer":
        self._thread.start()
        self.wait_for_more()
        self._longest_silence = 0.0
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(DEADLINE)

    @property
    def longest_silence(self) -> float:
        """The longest time without an acknowledgement so far."""
        return max(self._longest_silence, time.monotonic() - self._last)

    def wait_for_more(self, count: int = 20) -> None:
        enough = len(self.acknowledged) + count
        eventually(lambda: len(self.acknowledged) >= enough, f"{count} more writes are acknowledged")

    def _write(self) -> None:
        number = 0
        while not self._stop.is_set():
            self._producer.produce(TOPIC, str(number), partition=0, on_delivery=self._delivered)
            number += 1
            self._producer.poll(0.005)
        assert self._producer.flush(DEADLINE) == 0

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failures.append(str(error))
            return
        now = time.monotonic()
        self._longest_silence = max(self._longest_silence, now - self._last)
        self._last = now
        self.acknowledged.append(int(message.value()))


@contextlib.contextmanager
def process_cluster(
    directory: Path,
    zookeeper: ZooKeeperServer | None,
    brokers: int = 3,
    via: Mapping[int, str] | None = None,
    session_seconds: float = SESSION_SECONDS,
    settings: Mapping[str, str] | None = None,
) -> Iterator[ProcessCluster]:
    """Without ZooKeeper, the brokers share an SQLite file."""
    cluster = ProcessCluster(directory, zookeeper, brokers, via or {}, session_seconds, settings or {})
    try:
        cluster.start()
        yield cluster
    finally:
        for broker_id, broker in cluster.brokers.items():
            broker.kill()
            print(f"--- broker {broker_id}\n{broker.log()}")
