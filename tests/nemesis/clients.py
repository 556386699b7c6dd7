"""Clients of a cluster with faults, each in its own thread. They record all replies."""

import asyncio
import itertools
import random
import threading
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from ottla.client.connection import connect
from ottla.client.failures import ClientError
from ottla.client.metadata import NO_LEADER
from ottla.env.network import Address
from ottla.wire.api.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.nemesis.history import Fate, History, Transaction

TOPIC = "nemesis"
PARTITIONS = 4
GROUP = "nemesis-group"
FINISH_TIMEOUT = 90.0
_TRANSACTION_TIMEOUT_MS = 5000
_COMMIT_EVERY = 0.5
_ASK_EVERY = 0.3


class Client:
    """A thread that repeats its work until it is told to finish."""

    def __init__(self, name: str, bootstrap: str, history: History) -> None:
        self.name = name
        self._settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "client.id": name,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
        }
        self._history = history
        self._chance = random.Random(name)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Call it for all clients before `finish`, so that they finish at the same time."""
        self._stopping.set()

    def finish(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:
            self._history.findings.append(f"{self.name} ended with {type(error).__name__}: {error}")

    def _work(self) -> None:
        """Work until `_stopping`, then finish."""
        raise AssertionError(f"{type(self).__name__} has no work")


class Writer(Client):
    """An idempotent producer with default settings, which waits for all in-sync replicas."""

    def __init__(self, name: str, bootstrap: str, history: History, rate: float) -> None:
        super().__init__(name, bootstrap, history)
        self._pause = 1 / rate

    def _work(self) -> None:
        producer = Producer({**self._settings, "enable.idempotence": True, "linger.ms": 5})
        for number in itertools.count():
            if self._stopping.wait(self._pause):
                break
            partition = self._chance.randrange(PARTITIONS)
            value = b"%s/%d" % (self.name.encode(), number)
            self._history.sent[f"{self.name}/{partition}"].append(value)
            producer.produce(TOPIC, value, key=self.name, partition=partition, on_delivery=self._told)
            producer.poll(0)
        if left := producer.flush(FINISH_TIMEOUT):
            self._history.findings.append(f"{left} records of {self.name} were not written when all was well again")

    def _told(self, error: KafkaError | None, message: Any) -> None:
        if error is None:
            self._history.acknowledged[message.value()] = (message.partition(), message.offset())
        else:
            self._history.findings.append(f"{self.name} gave up on a record: {error}")


class TransactionalWriter(Client):
    """Some records over all partitions in each transaction; one of ten is aborted."""

    def _work(self) -> None:
        producer: Any = None
        for number in itertools.count():
            if self._stopping.is_set():
                return
            if producer is None:
                producer = self._new_producer()
            values = tuple(b"%s/%d/%d" % (self.name.encode(), number, part) for part in range(PARTITIONS))
            fate = self._transaction(producer, values)
            self._history.transactions.append(Transaction(values, fate))
            if fate is Fate.UNKNOWN:
                producer = None

    def _new_producer(self) -> Any:
        """A new producer with the same id. The coordinator ends the open transaction before this returns."""
        settings = {"transactional.id": self.name, "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS}
        producer = Producer({**self._settings, **settings})
        deadline = time.monotonic() + FINISH_TIMEOUT
        while True:
            try:
                producer.init_transactions(5)
                return producer
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise

    def _transaction(self, producer: Any, values: tuple[bytes, ...]) -> Fate:
        producer.begin_transaction()
        for partition, value in enumerate(values):
            producer.produce(TOPIC, value, key=self.name, partition=partition)
        if self._chance.random() < 0.1:
            return self._end(producer, producer.abort_transaction, Fate.ABORTED)
        return self._end(producer, producer.commit_transaction, Fate.COMMITTED)

    def _end(self, producer: Any, end: Callable[[float], None], fate: Fate) -> Fate:
        deadline = time.monotonic() + FINISH_TIMEOUT
        while time.monotonic() < deadline:
            try:
                end(5)
                return fate
            except KafkaException as error:
                if error.args[0].txn_requires_abort():
                    return self._end(producer, producer.abort_transaction, Fate.ABORTED)
                if not error.args[0].retriable():
                    return Fate.UNKNOWN
        self._history.findings.append(f"{self.name} could not end a transaction within {FINISH_TIMEOUT:.0f} s")
        return Fate.UNKNOWN


class Reader(Client):
    """A member of the group. It commits its position, and checks the group's position when it gets a partition."""

    committed: dict[int, int]
    """The highest offset with an acknowledged commit, by partition, for all members."""

    def __init__(self, name: str, bootstrap: str, history: History, committed: dict[int, int]) -> None:
        super().__init__(name, bootstrap, history)
        self.committed = committed

    def _work(self) -> None:
        consumer = Consumer(
            {
                **self._settings,
                "group.id": GROUP,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "session.timeout.ms": 3000,
                "heartbeat.interval.ms": 500,
            }
        )
        consumer.subscribe([TOPIC], on_assign=self._take_over)
        last_commit = time.monotonic()
        while not self._stopping.is_set():
            for message in consumer.consume(100, timeout=0.1):
                if message.error() is None:
                    self._history.consumed[message.partition(), message.offset()] = message.value()
                elif message.error().code() == KafkaError._AUTO_OFFSET_RESET:
                    self._history.findings.append(f"{self.name} lost its place: {message.error()}")
            if time.monotonic() - last_commit > _COMMIT_EVERY:
                last_commit = time.monotonic()
                self._commit(consumer)
        consumer.close()

    def _commit(self, consumer: Any) -> None:
        try:
            places = consumer.commit(asynchronous=False)
        except KafkaException:
            return  # Nothing to commit, no coordinator, or no longer a member.
        for place in places:
            if place.error is None:
                self.committed[place.partition] = max(place.offset, self.committed.get(place.partition, 0))

    def _take_over(self, consumer: Any, places: list[TopicPartition]) -> None:
        known = dict(self.committed)
        try:
            for place in consumer.committed(places, timeout=5):
                if place.error is None and place.offset < known.get(place.partition, 0):
                    self._history.findings.append(
                        f"the group's offset in partition {place.partition} went back"
                        f" from {known[place.partition]} to {place.offset}"
                    )
        except KafkaException:
            pass  # The coordinator is unavailable. The next rebalance tries again.


class Watcher(Client):
    """Asks each broker for the leaders."""

    def __init__(self, name: str, bootstrap: str, history: History, ports: list[int]) -> None:
        super().__init__(name, bootstrap, history)
        self._ports = ports

    def _work(self) -> None:
        while not self._stopping.wait(_ASK_EVERY):
            asyncio.run(self._ask_all())

    async def _ask_all(self) -> None:
        await asyncio.gather(*[self._ask(port) for port in self._ports])

    async def _ask(self, port: int) -> None:
        try:
            connection = await connect(Address("127.0.0.1", port), client_id=self.name, within=0.5)
            try:
                request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False)
                answer = await connection.call(request, MetadataResponse, within=0.5)
            finally:
                connection.close()
        except ClientError:
            return  # This broker has a fault.
        for topic in answer.topics:
            for partition in topic.partitions:
                if partition.leader_id != NO_LEADER:
                    key = partition.partition_index, partition.leader_epoch
                    self._history.leaders[key].add(partition.leader_id)
