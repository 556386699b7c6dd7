"""A broker that is killed or stopped, and comes back: what it acknowledged is there, clients carry on."""

import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import RESOURCE_TOPIC, AdminClient, ConfigResource
from kio.schema.errors import ErrorCode

from tests.compat import batches, topics
from tests.compat.confluent_client import Record, consume, consumer, produce, read_partition, send, values
from tests.compat.deadlines import eventually
from tests.compat.processes import BrokerProcess
from tests.compat.wire import connect
from tests.compat.wire_requests import new_producer, produce_one

RECONNECT_QUICKLY = {"reconnect_backoff_ms": 20, "reconnect_backoff_max_ms": 200}
TOPIC = "survivor"

Interruption = Callable[[BrokerProcess], None]


def kill_and_start(process: BrokerProcess) -> None:
    process.kill()
    process.start()


INTERRUPTIONS = pytest.mark.parametrize("interrupt", [kill_and_start, BrokerProcess.restart], ids=["killed", "stopped"])


def create_topic(process: BrokerProcess, partitions: int = 1, config: dict[str, str] | None = None) -> Any:
    admin = AdminClient({"bootstrap.servers": process.bootstrap_servers})
    topics.create(admin, TOPIC, partitions, config)
    return admin


class Load:
    """A producer that is kept busy across interruptions and knows what was acknowledged."""

    def __init__(self, bootstrap: str, **config: Any) -> None:
        settings = {**RECONNECT_QUICKLY, "acks": "all", "linger_ms": 1, "batch_num_messages": 50, **config}
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, **{k.replace("_", "."): v for k, v in settings.items()}}
        )
        self._reports: list[tuple[Any, Any]] = []
        self.sent = 0

    def send(self, count: int) -> None:
        for _ in range(count):
            send(self._producer, TOPIC, Record(str(self.sent).encode()), self._reports)
            self.sent += 1

    def send_until_acknowledged(self, count: int) -> None:
        """Keep sending until so many more are acknowledged, and leave others under way."""
        target = len(self.acknowledged()) + count

        def enough() -> bool:
            self.send(200)
            self._producer.poll(0.01)
            return len(self.acknowledged()) >= target

        eventually(enough, interval=0)

    def flush(self) -> None:
        assert self._producer.flush(30) == 0

    def acknowledged(self) -> list[int]:
        return [int(message.value()) for error, message in self._reports if error is None]

    def failed(self) -> list[Any]:
        return [error for error, _ in self._reports if error is not None]


def stored_values(process: BrokerProcess) -> list[int]:
    with consumer(process.bootstrap_servers, "reader", enable_auto_commit=False) as client:
        place = TopicPartition(TOPIC, 0, 0)
        _, end = client.get_watermark_offsets(place, timeout=10)
        client.assign([place])
        return [int(message.value()) for message in consume(client, end)]


def test_what_was_acknowledged_before_a_kill_is_there(broker_process: BrokerProcess) -> None:
    create_topic(broker_process)
    load = Load(broker_process.bootstrap_servers, enable_idempotence=False, retries=0)
    load.send_until_acknowledged(3000)
    kill_and_start(broker_process)
    load.flush()
    stored = stored_values(broker_process)
    assert set(load.acknowledged()) <= set(stored)
    assert stored == sorted(stored)


def test_an_idempotent_producer_survives_kills_without_loss_or_duplicates(broker_process: BrokerProcess) -> None:
    create_topic(broker_process)
    load = Load(broker_process.bootstrap_servers, enable_idempotence=True)
    for _ in range(3):
        load.send_until_acknowledged(1000)
        kill_and_start(broker_process)
    load.send_until_acknowledged(1000)
    load.flush()
    assert load.failed() == []
    assert stored_values(broker_process) == list(range(load.sent))


def test_an_idempotent_producer_survives_a_clean_restart(broker_process: BrokerProcess) -> None:
    create_topic(broker_process)
    load = Load(broker_process.bootstrap_servers, enable_idempotence=True)
    load.send_until_acknowledged(1000)
    broker_process.restart()
    load.send_until_acknowledged(1000)
    load.flush()
    assert load.failed() == []
    assert stored_values(broker_process) == list(range(load.sent))


def sequenced(sequence: int, producer: int, epoch: int) -> bytes:
    """Two records that carry the present time: Kafka forgets producers by the timestamps of their records."""
    stamps = [int(time.time() * 1000)] * 2
    return batches.pack([b"a", b"b"], timestamps=stamps, producer_id=producer, producer_epoch=epoch, sequence=sequence)


@INTERRUPTIONS
def test_a_repeated_sequence_is_recognised_after_a_restart(
    broker_process: BrokerProcess, interrupt: Interruption
) -> None:
    admin = create_topic(broker_process)
    with connect(broker_process.bootstrap_servers) as connection:
        producer, epoch = new_producer(connection)
        sent = [sequenced(sequence, producer, epoch) for sequence in (0, 2, 4)]
        assert [produce_one(connection, TOPIC, batch).base_offset for batch in sent] == [0, 2, 4]
    interrupt(broker_process)
    topics.wait_until_ready(admin, TOPIC, 1)
    with connect(broker_process.bootstrap_servers) as connection:
        again = produce_one(connection, TOPIC, sent[-1])
        assert (again.error_code, again.base_offset) == (ErrorCode.none, 4)
        gap = produce_one(connection, TOPIC, sequenced(9, producer, epoch))
        assert gap.error_code is ErrorCode.out_of_order_sequence_number
        assert new_producer(connection)[0] != producer


@INTERRUPTIONS
def test_topics_configurations_and_offsets_are_kept(broker_process: BrokerProcess, interrupt: Interruption) -> None:
    bootstrap = broker_process.bootstrap_servers
    admin = create_topic(broker_process, partitions=3, config={"retention.ms": "123456789"})
    produce(bootstrap, TOPIC, [Record(str(n).encode(), partition=n % 3) for n in range(30)])
    with consumer(bootstrap, "keeper") as client:
        client.commit(offsets=[TopicPartition(TOPIC, 1, 7, "note")], asynchronous=False)

    def everything() -> dict[str, Any]:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        description = admin.describe_topics(TopicCollection([TOPIC]))[TOPIC].result(10)
        [config] = admin.describe_configs([ConfigResource(RESOURCE_TOPIC, TOPIC)]).values()
        [stored] = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("keeper")]).values()
        return {
            "topic id": str(description.topic_id),
            "partitions": [partition.id for partition in description.partitions],
            "retention": config.result(10)["retention.ms"].value,
            "offsets": [(p.topic, p.partition, p.offset, p.metadata) for p in stored.result(10).topic_partitions],
            "groups": [group.group_id for group in admin.list_consumer_groups().result(10).valid],
            "cluster id": admin.describe_cluster().result(10).cluster_id,
        }

    before = everything()
    assert (before["retention"], before["groups"]) == ("123456789", ["keeper"])
    interrupt(broker_process)
    topics.wait_until_ready(admin, TOPIC, 3)
    eventually(lambda: admin.list_consumer_groups().result(10).valid)
    assert everything() == before
    for partition in range(3):
        messages = read_partition(bootstrap, TOPIC, 10, partition)
        assert [int(m.value()) for m in messages] == list(range(partition, 30, 3))


def test_deleted_records_and_topics_stay_deleted(broker_process: BrokerProcess) -> None:
    bootstrap = broker_process.bootstrap_servers
    admin = create_topic(broker_process)
    topics.create(admin, "gone")
    produce(bootstrap, TOPIC, values(10))
    place = TopicPartition(TOPIC, 0, 6)
    admin.delete_records([place])[place].result(10)
    admin.delete_topics(["gone"])["gone"].result(10)
    broker_process.restart()
    topics.wait_until_ready(admin, TOPIC, 1)
    with consumer(bootstrap, "reader") as client:
        assert client.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=10) == (6, 10)
    assert "gone" not in admin.list_topics(timeout=10).topics


@INTERRUPTIONS
def test_a_consumer_group_carries_on(broker_process: BrokerProcess, interrupt: Interruption) -> None:
    bootstrap = broker_process.bootstrap_servers
    create_topic(broker_process)
    settings = {**RECONNECT_QUICKLY, "session_timeout_ms": 6000, "heartbeat_interval_ms": 200}
    with consumer(bootstrap, "workers", **settings) as client:
        client.subscribe([TOPIC])
        produce(bootstrap, TOPIC, values(10))
        assert [m.offset() for m in consume(client, 10)] == list(range(10))
        client.commit(asynchronous=False)
        interrupt(broker_process)
        produce(bootstrap, TOPIC, values(10))
        assert [m.offset() for m in consume(client, 10, timeout=30)] == list(range(10, 20))
        eventually(lambda: committed_offset(client) == 20)


def committed_offset(client: Any) -> int:
    client.poll(0.05)
    client.commit(asynchronous=False)
    offset: int = client.committed([TopicPartition(TOPIC, 0)], timeout=10)[0].offset
    return offset


def test_a_torn_tail_is_cut_off(broker_process: BrokerProcess) -> None:
    bootstrap = broker_process.bootstrap_servers
    create_topic(broker_process)
    produce(bootstrap, TOPIC, values(20))
    broker_process.kill()
    [segment] = broker_process.data_dir.glob(f"{TOPIC}-0/*.log")
    whole = segment.read_bytes()
    segment.write_bytes(whole + batches.pack([b"never finished"] * 10)[:-30])
    broker_process.start()
    assert [m.offset() for m in produce(bootstrap, TOPIC, values(1))] == [20]
    assert [m.offset() for m in read_partition(bootstrap, TOPIC, 21)] == list(range(21))


def test_two_brokers_cannot_share_a_directory(broker_process: BrokerProcess) -> None:
    second = BrokerProcess(broker_process.data_dir)
    done = subprocess.run(second.command(), capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    assert "Traceback" not in done.stdout + done.stderr
    create_topic(broker_process)
