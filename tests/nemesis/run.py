"""One run: starts a cluster and clients, injects the scheduled faults, and checks all replies at the end."""

import functools
import heapq
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat import topics
from tests.compat.deadlines import eventually
from tests.nemesis import replicas
from tests.nemesis.clients import (
    FINISH_TIMEOUT,
    GROUP,
    PARTITIONS,
    TOPIC,
    Client,
    Reader,
    TransactionalWriter,
    Watcher,
    Writer,
)
from tests.nemesis.cluster import CLIENTS, REPLICATION_FACTOR, SESSION_SECONDS, ZOOKEEPER, Cluster, Node
from tests.nemesis.history import Fate, History, judge
from tests.nemesis.network import Way
from tests.nemesis.schedule import ALL, WITHOUT_ZOOKEEPER, Fault, Kind, draw
from tests.torture import readers

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    seconds: float
    brokers: int = 3
    rate: float = 150
    """Records per second of each of two producers."""
    fault_every: float = 3.0


@dataclass(slots=True)
class Outcome:
    findings: list[str]
    acknowledged: int
    consumed: int
    transactions: Counter[Fate]
    faults: Counter[Kind] = field(default_factory=Counter)
    epochs: int = 0


class Run:
    def __init__(self, plan: Plan, cluster: Cluster, say: Say) -> None:
        self._plan = plan
        self._cluster = cluster
        self._say = say
        self._history = History()
        self._committed: dict[int, int] = {}
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._faults: Counter[Kind] = Counter()
        bootstrap, history = cluster.bootstrap_servers, self._history
        self._writers: list[Client] = [
            *(Writer(f"writer-{number}", bootstrap, history, plan.rate) for number in range(2)),
            *(TransactionalWriter(f"transactional-{number}", bootstrap, history) for number in range(2)),
        ]
        self._readers = [Reader(f"reader-{number}", bootstrap, history, self._committed) for number in range(2)]
        self._watcher = Watcher("watcher", bootstrap, history, [node.port for node in cluster.nodes])

    def run(self) -> Outcome:
        self._create_topic()
        clients = [*self._writers, *self._readers, self._watcher]
        for client in clients:
            client.start()
        try:
            self._strike_on_schedule()
            self._say("all faults are over")
            self._cluster.heal()
            _finish(self._writers)
            self._await_the_group()
        finally:
            _finish(clients)
        return self._judge()

    def _create_topic(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._cluster.bootstrap_servers, "log_level": 0})
        eventually(lambda: len(admin.list_topics(timeout=10).brokers) == len(self._cluster.nodes))
        new = NewTopic(TOPIC, PARTITIONS, REPLICATION_FACTOR, config={"segment.bytes": str(1 << 20)})
        admin.create_topics([new])[TOPIC].result(60)
        topics.wait_until_ready(admin, TOPIC, PARTITIONS)
        group = Consumer({"bootstrap.servers": self._cluster.bootstrap_servers, "group.id": GROUP, "log_level": 0})
        beginning = [TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)]
        group.commit(offsets=beginning, asynchronous=False)
        group.close()

    def _strike_on_schedule(self) -> None:
        began = time.monotonic()
        plan = self._plan
        kinds = ALL if self._cluster.zookeeper is not None else WITHOUT_ZOOKEEPER
        for fault in draw(plan.seed, plan.seconds, plan.brokers, SESSION_SECONDS, plan.fault_every, kinds):
            self._at(began + fault.at, functools.partial(self._strike, fault))
        while time.monotonic() < began + plan.seconds or self._agenda:
            while self._agenda and self._agenda[0][0] <= time.monotonic():
                heapq.heappop(self._agenda)[2]()
            time.sleep(0.02)

    def _at(self, moment: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (moment, next(self._order), action))

    def _strike(self, fault: Fault) -> None:
        self._faults[fault.kind] += 1
        self._say(f"{fault}; acknowledged so far: {len(self._history.acknowledged)}")
        cluster = self._cluster
        node, other = cluster.nodes[fault.broker], cluster.nodes[fault.other]
        end = time.monotonic() + fault.seconds
        match fault.kind:
            case Kind.KILL:
                node.kill()
                self._at(end, functools.partial(_launch, node))
            case Kind.STOP:
                self._at(end, functools.partial(self._launch_after, node.terminate(), node))
            case Kind.PAUSE:
                node.pause()
                self._at(end, node.resume)
            case Kind.ZOOKEEPER:
                cluster.kill_zookeeper()
                self._at(end, cluster.start_zookeeper)
            case Kind.FROM_BROKERS:
                self._cut(cluster.around(node), end)
            case Kind.FROM_ONE:
                self._cut([Way(node.name, other.name)], end)
            case Kind.FROM_CLIENTS:
                self._cut([Way(CLIENTS, node.name)], end)
            case Kind.FROM_ZOOKEEPER:
                self._cut([Way(node.name, ZOOKEEPER)], end)

    def _cut(self, ways: Iterable[Way], end: float) -> None:
        ways = list(ways)
        self._cluster.network.cut(ways)
        self._at(end, functools.partial(self._cluster.network.mend, ways))

    def _launch_after(self, ended: Callable[[], bool], node: Node) -> None:
        """A broker needs time to stop, more so if it is cut off or paused."""
        if ended():
            _launch(node)
        else:
            self._at(time.monotonic() + 0.1, functools.partial(self._launch_after, ended, node))

    def _await_the_group(self) -> None:
        """The group reads to the end, so that its records can be compared with the log."""
        found = readers.read(self._cluster.bootstrap_servers, TOPIC, PARTITIONS, committed=True)
        last = {partition: records[-1].offset for partition, records in found.items() if records}
        deadline = time.monotonic() + FINISH_TIMEOUT
        while behind := [place for place in last.items() if place not in self._history.consumed]:
            if time.monotonic() > deadline:
                self._history.findings.append(f"the group has not come to {behind} within {FINISH_TIMEOUT:.0f} s")
                return
            time.sleep(0.1)

    def _judge(self) -> Outcome:
        cluster, history = self._cluster, self._history
        found = readers.read(cluster.bootstrap_servers, TOPIC, PARTITIONS, committed=True)
        findings = judge(history, {part: [(it.offset, it.value) for it in records] for part, records in found.items()})
        findings += self._await_all_in_sync()
        for node in cluster.nodes:
            node.stop()
        findings += replicas.differences([node.data_dir for node in cluster.nodes], TOPIC)
        findings += [f"{node.name}: {line}" for node in cluster.nodes for line in node.holds()]
        fates = Counter(transaction.fate for transaction in history.transactions)
        return Outcome(
            findings, len(history.acknowledged), len(history.consumed), fates, self._faults, len(history.leaders)
        )

    def _await_all_in_sync(self) -> list[str]:
        admin = AdminClient({"bootstrap.servers": self._cluster.bootstrap_servers, "log_level": 0})
        deadline = time.monotonic() + FINISH_TIMEOUT
        while True:
            known = admin.list_topics(timeout=10).topics.values()
            behind = [
                f"{topic.topic}-{partition.id}: {sorted(partition.isrs)} of {sorted(partition.replicas)} are in sync"
                for topic in known
                for partition in topic.partitions.values()
                if sorted(partition.isrs) != sorted(partition.replicas)
            ]
            if not behind or time.monotonic() > deadline:
                return behind
            time.sleep(0.2)


def _launch(node: Node) -> None:
    if not node.runs():
        node.launch()


def _finish(clients: Iterable[Client]) -> None:
    clients = list(clients)
    for client in clients:
        client.stop()
    for client in clients:
        client.finish()
