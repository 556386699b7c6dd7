"""Topics that keep the last value of each key, as real clients see them."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from tests.compat import topics
from tests.compat.confluent_client import Record, consumer, produce
from tests.compat.conftest import EXTERNAL_BROKER, Broker, ExternalBroker
from tests.compat.deadlines import eventually
from tests.compat.processes import BrokerProcess

QUICK = {
    "log.cleaner.backoff.ms": "20",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
"""An external broker should have these, too, or the tests wait for its cleaner."""

COMPACTED = {"cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0.01"}
TABLE = "table"
START_MS = 1_700_000_000_000
KEYS = 10
UNCOMPACTED = 40
"""Records that may be in the last segment, which is not compacted: their times are 50 ms apart."""


@pytest.fixture
def cleaning_broker(tmp_path: Path) -> Iterator[Broker]:
    if EXTERNAL_BROKER:
        yield ExternalBroker(EXTERNAL_BROKER)
        return
    process = BrokerProcess(tmp_path / "data", QUICK)
    process.start()
    yield process
    process.kill()
    print(process.log())


def create_table(bootstrap: str, name: str, **config: str) -> str:
    settings = {**COMPACTED, **{key.replace("_", "."): value for key, value in config.items()}}
    topics.create(AdminClient({"bootstrap.servers": bootstrap}), name, 1, settings)
    return name


def changes(count: int, first: int = 0) -> list[Record]:
    """New values of a few keys, one every 50 ms, so that a segment lasts for twenty of them."""
    return [
        Record(b"value-%d" % number, b"key-%d" % (number % KEYS), [("n", b"%d" % number)], START_MS + 50 * number)
        for number in range(first, first + count)
    ]


def read_table(bootstrap: str, name: str, **config: Any) -> list[Any]:
    """All that a consumer finds from the beginning to the end."""
    client = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            **{key.replace("_", "."): value for key, value in config.items()},
        }
    )
    client.assign([TopicPartition(name, 0, 0)])
    found: list[Any] = []
    try:
        while True:
            message = client.poll(10)
            assert message is not None
            if message.error() is None:
                found.append(message)
            elif message.error().code() == KafkaError._PARTITION_EOF:
                return found
            else:
                raise AssertionError(message.error())
    finally:
        client.close()


def compacted(bootstrap: str, name: str) -> list[Any]:
    found = read_table(bootstrap, name)
    return found if len(found) <= KEYS + UNCOMPACTED else []


def test_the_last_value_of_each_key_is_kept(cleaning_broker: Broker, unique: Any) -> None:
    bootstrap = cleaning_broker.bootstrap_servers
    table = create_table(bootstrap, unique())
    sent = changes(400)
    for compression in ("none", "gzip", "snappy", "lz4", "zstd"):
        position = len(sent) // 5 * ["none", "gzip", "snappy", "lz4", "zstd"].index(compression)
        part = sent[position : position + len(sent) // 5]
        produce(bootstrap, table, part, compression_type=compression, batch_num_messages=7)
    found = eventually(lambda: compacted(bootstrap, table), 60)
    assert {message.key(): message.value() for message in found} == {record.key: record.value for record in sent}
    for message in found:
        record = sent[message.offset()]
        assert (message.key(), message.value(), message.headers()) == (record.key, record.value, record.headers)
        assert message.timestamp()[1] == record.timestamp
    assert [message.offset() for message in found] == sorted(message.offset() for message in found)
    produce(bootstrap, table, changes(1, 400))
    assert read_table(bootstrap, table)[-1].offset() == 400


def test_a_key_without_a_value_is_forgotten(cleaning_broker: Broker, unique: Any) -> None:
    bootstrap = cleaning_broker.bootstrap_servers
    table = create_table(bootstrap, unique(), delete_retention_ms="100")
    gone = Record(None, b"key-0", [], START_MS + 5000)
    produce(bootstrap, table, [*changes(100), gone, *changes(100, 101)[1:9]], batch_num_messages=5)
    number = 200

    def forgotten() -> bool:
        """The tombstone is looked at again with the next pass, and for that there has to be something new."""
        nonlocal number
        part = [record for record in changes(30, number) if record.key != b"key-0"]
        produce(bootstrap, table, part, batch_num_messages=5)
        number += 30
        return b"key-0" not in {message.key() for message in read_table(bootstrap, table)}

    eventually(forgotten, 60, interval=0.1)
    assert len({message.key() for message in read_table(bootstrap, table)}) == KEYS - 1


def test_an_aborted_value_replaces_nothing(cleaning_broker: Broker, unique: Any) -> None:
    bootstrap = cleaning_broker.bootstrap_servers
    table = create_table(bootstrap, unique(), segment_ms="50")
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": unique(), "batch.num.messages": 5})
    producer.init_transactions(10)
    expected: dict[bytes | None, bytes | None] = {}
    number = 0

    def is_compacted() -> bool:
        """After one more transaction: markers have the time at which they are written, and so have these records."""
        nonlocal number
        part = changes(24, number)
        producer.begin_transaction()
        for record in part:
            producer.produce(table, record.value, record.key)
        if number % 48:
            producer.abort_transaction(10)
        else:
            producer.commit_transaction(10)
            expected.update({record.key: record.value for record in part})
        number += 24
        return number > 240 and len(read_table(bootstrap, table, isolation_level="read_uncommitted")) < 120

    eventually(is_compacted, 60, interval=0.06)
    found = read_table(bootstrap, table, isolation_level="read_committed")
    assert {message.key(): message.value() for message in found} == expected


@pytest.mark.skipif(EXTERNAL_BROKER is not None, reason="only a broker this suite starts itself can be killed")
def test_kills_in_the_middle_of_compaction(tmp_path: Path) -> None:
    process = BrokerProcess(tmp_path / "data", {**QUICK, "log.cleaner.backoff.ms": "0"})
    process.start()
    chance = random.Random(1)
    try:
        table = create_table(process.bootstrap_servers, TABLE)
        expected: dict[bytes | None, bytes | None] = {}
        for round_number in range(4):
            part = changes(300, 300 * round_number)
            produce(process.bootstrap_servers, table, part, acks="all", batch_num_messages=chance.randint(1, 20))
            expected |= {record.key: record.value for record in part}
            process.kill()
            process.start()
            found = read_table(process.bootstrap_servers, table)
            assert {message.key(): message.value() for message in found} == expected
            assert found[-1].offset() == 300 * round_number + 299
        eventually(lambda: compacted(process.bootstrap_servers, table), 60)
        found = read_table(process.bootstrap_servers, table)
        assert {message.key(): message.value() for message in found} == expected
    finally:
        process.kill()
        print(process.log())


@pytest.mark.skipif(EXTERNAL_BROKER is not None, reason="looks into the data directory")
def test_committed_offsets_stay_small(tmp_path: Path) -> None:
    process = BrokerProcess(tmp_path / "data", QUICK)
    process.start()
    try:
        admin = AdminClient({"bootstrap.servers": process.bootstrap_servers})
        topics.create(admin, TABLE)
        produce(process.bootstrap_servers, TABLE, [Record(b"v")] * 10)
        checkpoint = process.data_dir / "cleaner-offset-checkpoint"
        with consumer(process.bootstrap_servers, "committing") as client:
            client.commit(offsets=[TopicPartition(TABLE, 0, 1)], asynchronous=False)
            _quicken(admin, "__consumer_offsets")

            def commit() -> bool:
                for offset in range(1, 10):
                    client.commit(offsets=[TopicPartition(TABLE, 0, offset)], asynchronous=False)
                return checkpoint.exists() and "__consumer_offsets" in checkpoint.read_text()

            eventually(commit, 30, interval=0.01)
        process.kill()
        process.start()
        with consumer(process.bootstrap_servers, "committing") as client:
            assert client.committed([TopicPartition(TABLE, 0)], 10)[0].offset == 9
    finally:
        process.kill()
        print(process.log())


def _quicken(admin: Any, topic: str) -> None:
    entries = {"segment.ms": "50", "min.cleanable.dirty.ratio": "0.01"}
    resource = ConfigResource(
        ConfigResource.Type.TOPIC,
        topic,
        incremental_configs=[
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in entries.items()
        ],
    )
    for answer in admin.incremental_alter_configs([resource]).values():
        answer.result(10)
