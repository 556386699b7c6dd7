"""The methods of a broker that write, read and wait."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

import ottla
from ottla import EmbeddedBroker
from ottla.testing.tools import Record

SECONDS = 60


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with ottla.embedded({"offsets.topic.num.partitions": "1"}) as broker:
        yield broker


@pytest.fixture
def topic(broker: EmbeddedBroker, request: pytest.FixtureRequest) -> str:
    name: str = request.node.name
    broker.create_topic(name, 2)
    return name


def test_values_keys_and_whole_records(broker: EmbeddedBroker, topic: str) -> None:
    headers = (("trace", b"1"), ("empty", None))
    whole = Record(b"v", b"k", headers, partition=1, timestamp_ms=1_700_000_000_000)
    written = broker.produce(topic, ["text", b"bytes", None, ("key", "value"), whole])
    assert {(it.key, it.value) for it in written} == {
        (None, b"text"),
        (None, b"bytes"),
        (None, None),
        (b"key", b"value"),
        (b"k", b"v"),
    }
    assert all(it.partition is not None and it.offset is not None for it in written)
    found = broker.consume(topic, 5)
    assert sorted(map(repr, found)) == sorted(map(repr, written))
    assert any(it[:4] == whole[:4] and it.timestamp_ms == 1_700_000_000_000 for it in found)
    assert sorted(map(repr, found)) == sorted(map(repr, broker.consume(topic))), "reading changes nothing"


def test_records_written_by_a_client(broker: EmbeddedBroker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(topic, "a", "k", partition=0)
    assert producer.flush(SECONDS) == 0
    (record,) = broker.consume(topic)
    assert (record.key, record.value, record.partition, record.offset) == (b"k", b"a", 0, 0)
    assert record.timestamp_ms is not None
    assert abs(record.timestamp_ms - time.time() * 1000) < 1000 * SECONDS


def test_consume_waits_for_records(broker: EmbeddedBroker, topic: str) -> None:
    later = threading.Timer(0.2, broker.produce, (topic, ["b"]))
    broker.produce(topic, ["a"])
    later.start()
    assert {it.value for it in broker.consume(topic, 2, timeout=SECONDS)} == {b"a", b"b"}
    later.join()


def test_too_few_records(broker: EmbeddedBroker, topic: str) -> None:
    with pytest.raises(TimeoutError, match=rf"found 0 of 1 records in {topic} in 0.2 s$"):
        broker.consume(topic, 1, timeout=0.2)
    broker.produce(topic, [Record(b"a", partition=0), Record(b"b", partition=0)])
    with pytest.raises(TimeoutError, match=r"found 2 of 3 records in \w+ in 1 s; all of them: b'a', b'b'$"):
        broker.consume(topic, 3, timeout=1)
    broker.produce(topic, [Record(b"%d" % number, partition=0) for number in range(20)])
    with pytest.raises(TimeoutError, match=r"found 22 of 30 records in \w+ in 1 s; the last 10: b'10', .*b'19'$"):
        broker.consume(topic, 30, timeout=1)


def test_uncommitted_records_are_not_read(broker: EmbeddedBroker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce(topic, "a")
    producer.flush(SECONDS)
    assert broker.consume(topic) == []
    producer.abort_transaction(SECONDS)
    assert broker.consume(topic) == []


def test_mistakes_are_named(broker: EmbeddedBroker, topic: str) -> None:
    with pytest.raises(TypeError, match="records is 'abc'; pass a list of values"):
        broker.produce(topic, "abc")
    with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
        broker.create_topic(topic)
    with pytest.raises(TimeoutError, match="wrote 0 of 1 records"):
        broker.produce(topic, [Record(b"a", partition=7)], timeout=1)


def test_a_dead_broker_is_reported(topic: str) -> None:
    with ottla.embedded() as dead:
        dead.create_topic("clicks")
        dead.kill()
        with pytest.raises(TimeoutError, match=r"cannot read clicks in 0.3 s"):
            dead.consume("clicks", timeout=0.3)
        with pytest.raises(TimeoutError, match=r"wrote 0 of 1 records to clicks in 0.3 s"):
            dead.produce("clicks", ["a"], timeout=0.3)
        with pytest.raises(TimeoutError, match=r"has committed no offset in 0.3 s; the last attempt failed"):
            dead.wait_for_lag("readers", timeout=0.3)


# Lag


class Reader(threading.Thread):
    """A consumer that commits each record, until it is stopped."""

    def __init__(self, broker: EmbeddedBroker, topic: str) -> None:
        super().__init__()
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": topic, "auto.offset.reset": "earliest"}
        self._consumer: Any = Consumer({**settings, "enable.auto.commit": False})
        self._consumer.subscribe([topic])
        self._stopping = threading.Event()
        self.read: list[bytes] = []

    def run(self) -> None:
        while not self._stopping.is_set():
            message = self._consumer.poll(0.05)
            if message is not None and message.error() is None:
                self.read.append(message.value())
                self._consumer.commit(message, asynchronous=False)
        self._consumer.close()

    def stop(self) -> None:
        self._stopping.set()
        self.join()


def test_waiting_until_a_group_has_read_everything(broker: EmbeddedBroker, topic: str) -> None:
    broker.produce(topic, [f"{number}" for number in range(20)])
    reader = Reader(broker, topic)
    reader.start()
    try:
        broker.wait_for_lag(topic, topics=[topic], timeout=SECONDS)
        assert sorted(map(int, reader.read)) == list(range(20))
        broker.produce(topic, ["more"] * 10)
        broker.wait_for_lag(topic, timeout=SECONDS)
        assert len(reader.read) == 30
    finally:
        reader.stop()


def test_a_lag_that_stays_is_described(broker: EmbeddedBroker, topic: str) -> None:
    with pytest.raises(TimeoutError, match=f"group '{topic}' has committed no offset in 0.1 s"):
        broker.wait_for_lag(topic, timeout=0.1)
    broker.produce(topic, [Record(b"a", partition=0)] * 3)
    reader = Reader(broker, topic)
    reader.start()
    broker.wait_for_lag(topic, topics=[topic], timeout=SECONDS)
    reader.stop()
    broker.produce(topic, [Record(b"a", partition=0)] * 2 + [Record(b"a", partition=1)])
    with pytest.raises(TimeoutError, match=rf"has a lag of 2 after 0.1 s, not 0 \({topic}-0: 3 of 5\)"):
        broker.wait_for_lag(topic, timeout=0.1)
    with pytest.raises(TimeoutError, match=rf"a lag of 3 .*\({topic}-0: 3 of 5, {topic}-1: 0 of 1\)"):
        broker.wait_for_lag(topic, topics=[topic], timeout=0.1)
    broker.wait_for_lag(topic, 3, topics=[topic], timeout=SECONDS)
