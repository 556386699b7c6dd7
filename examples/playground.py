"""Shared code of the examples: a broker, topics, a worker that can be killed, and a reader."""

import argparse
import contextlib
import multiprocessing
import os
import signal
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import ottla

ORDERS = range(1, 13)
BATCH = 4
FATAL_ORDER = 6
"""A worker crashes in the batch with this order, its second batch."""

FROM_START_TO_END = {"auto.offset.reset": "earliest", "enable.partition.eof": True, "fetch.wait.max.ms": 50}
"""Settings of a consumer that starts at the oldest record and reports the end of the partition."""


@dataclass(frozen=True, slots=True)
class Playground:
    """A topic of orders, a topic for the invoices that workers write, and the name of the workers' group."""

    bootstrap_servers: str
    orders: str
    invoices: str
    group: str

    @property
    def client(self) -> dict[str, Any]:
        return client(self.bootstrap_servers)

    def run_worker(self, work: Callable[["Playground", str | None], None], crash_after: str | None = None) -> None:
        """Run a worker in a separate process until it has processed all orders or kills itself."""
        process = multiprocessing.get_context("spawn").Process(target=work, args=(self, crash_after))
        process.start()
        process.join()
        if process.exitcode != (0 if crash_after is None else -signal.SIGKILL):
            raise SystemExit(f"the worker ended with {process.exitcode}, which was not expected")
        print("worker   ", "done" if crash_after is None else f"killed after {crash_after}")


@contextlib.contextmanager
def open_playground(description: str) -> Iterator[Playground]:
    """Create twelve orders on the given broker, or on an embedded broker that runs as long as the program."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--bootstrap-server", metavar="HOST:PORT", help="use this broker instead of starting one")
    address: str | None = parser.parse_args().bootstrap_server
    with contextlib.ExitStack() as stack:
        if address is None:
            settings = {"group.initial.rebalance.delay.ms": "0"}  # Do not wait for more members.
            address = stack.enter_context(ottla.embedded(settings)).bootstrap_servers
        run = uuid.uuid4().hex[:8]
        playground = Playground(address, f"orders-{run}", f"invoices-{run}", f"billing-{run}")
        create_topics(address, [playground.orders, playground.invoices])
        write(address, playground.orders, [f"order {number}" for number in ORDERS])
        print(f"{playground.orders} -> {playground.invoices} on {address}")
        yield playground


def client(bootstrap_servers: str) -> dict[str, Any]:
    """Settings of every client: the broker's address, and no log lines for retries, which are expected here."""
    return {"bootstrap.servers": bootstrap_servers, "log_level": 3}


def create_topics(bootstrap_servers: str, names: Sequence[str]) -> None:
    admin = AdminClient(client(bootstrap_servers))
    topics = [NewTopic(name, num_partitions=1, replication_factor=1) for name in names]
    for created in admin.create_topics(topics).values():
        created.result()


def write(bootstrap_servers: str, topic: str, values: Sequence[str]) -> None:
    producer = Producer({**client(bootstrap_servers), "enable.idempotence": True})
    for value in values:
        producer.produce(topic, value)
    producer.flush()


def read(bootstrap_servers: str, topic: str, isolation_level: str = "read_committed") -> list[int]:
    """The numbers in a topic that a reader with this isolation level sees after all transactions have ended."""
    settings = {"group.id": "reader", "enable.auto.commit": False, "isolation.level": isolation_level}
    consumer = Consumer({**client(bootstrap_servers), **FROM_START_TO_END, **settings})
    consumer.assign([TopicPartition(topic, 0, 0)])
    end = high_watermark(bootstrap_servers, topic)
    numbers = [number(message) for batch in batches(consumer, end) for message in batch]
    consumer.close()
    return numbers


def high_watermark(bootstrap_servers: str, topic: str) -> int:
    """The offset after all records and markers of a topic, open transactions included."""
    consumer = Consumer({**client(bootstrap_servers), "group.id": "reader", "isolation.level": "read_uncommitted"})
    while True:
        try:
            _, high = consumer.get_watermark_offsets(TopicPartition(topic, 0))
        except KafkaException as error:
            # In Apache Kafka, metadata can show a topic shortly before its leader is ready.
            if error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION:
                raise
        else:
            consumer.close()
            return int(high)


def batches(consumer: Any, end: int = 0) -> Iterator[list[Any]]:
    """A consumer's messages in small batches, until `end`. A real worker would never stop."""
    batch = []
    while True:
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error and error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        if not error:
            batch.append(message)
        if batch and (error or len(batch) == BATCH):
            yield batch
            batch = []
        if error and message.offset() >= end:
            return


def number(message: Any) -> int:
    """The number at the end of a message's value."""
    return int(message.value().split()[-1])


def die() -> NoReturn:
    """Crash without flushing, committing, closing or notifying the broker."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("no process survives SIGKILL")


def report(invoices: Sequence[int]) -> None:
    print("orders   ", text(ORDERS))
    print("invoices ", text(invoices))
    print("lost     ", text(lost(ORDERS, invoices)))
    print("repeated ", text(repeated(invoices)))


def lost(sent: Sequence[int], seen: Sequence[int]) -> list[int]:
    return sorted(set(sent) - set(seen))


def repeated(seen: Sequence[int]) -> list[int]:
    return sorted(number for number, times in Counter(seen).items() if times > 1)


def text(numbers: Sequence[int]) -> str:
    return " ".join(map(str, numbers)) or "none"
