"""`ottla.embedded()`: a real broker for the length of a `with` block."""

import logging
import socket
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient

import ottla
from ottla import EmbeddedBroker
from ottla.server.broker import StartupError
from ottla.testing.topics import create_topic


def produce(bootstrap_servers: str, topic: str, *values: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 0})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(60) == 0


def consume(bootstrap_servers: str, topic: str) -> list[str]:
    """Every value of a topic, up to its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "everything",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    found: list[str] = []
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is None:
            continue
        if message.error() and message.error().code() == KafkaError._PARTITION_EOF:
            break
        assert message.error() is None
        found.append(message.value().decode())
    consumer.close()
    return found


def is_listening(bootstrap_servers: str) -> bool:
    host, _, port = bootstrap_servers.rpartition(":")
    with socket.socket() as sock:
        return sock.connect_ex((host, int(port))) == 0


QUICK = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}


def test_ready_when_the_block_begins_and_gone_when_it_ends() -> None:
    before = set(threading.enumerate())
    begun = time.perf_counter()
    with ottla.embedded(QUICK) as broker:
        print(f"an embedded broker was ready after {time.perf_counter() - begun:.3f} s")
        assert broker.bootstrap_servers.startswith("127.0.0.1:")
        assert not broker.bootstrap_servers.endswith((":0", ":9092"))
        assert is_listening(broker.bootstrap_servers)
        data_dir = broker.data_dir
        assert data_dir.exists()
        produce(broker.bootstrap_servers, "clicks", "a", "b")
        assert consume(broker.bootstrap_servers, "clicks") == ["a", "b"]
    assert not is_listening(broker.bootstrap_servers)
    assert not data_dir.exists()
    assert {thread for thread in threading.enumerate() if thread.name.startswith("ottla")} <= before


def test_two_brokers_at_once_do_not_know_of_each_other() -> None:
    with ottla.embedded(QUICK) as one, ottla.embedded(QUICK) as two:
        assert one.bootstrap_servers != two.bootstrap_servers
        create_topic(one.bootstrap_servers, "only-on-one", 2)
        clusters = [AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics() for broker in (one, two)]
        assert [sorted(cluster.topics) for cluster in clusters] == [["only-on-one"], []]
        assert clusters[0].cluster_id != clusters[1].cluster_id


def test_a_data_directory_keeps_the_data_for_the_next_run(tmp_path: Path) -> None:
    with ottla.embedded(QUICK, data_dir=tmp_path) as broker:
        produce(broker.bootstrap_servers, "clicks", "first", "second")
    with ottla.embedded(QUICK, data_dir=str(tmp_path)) as broker:
        produce(broker.bootstrap_servers, "clicks", "third")
        assert consume(broker.bootstrap_servers, "clicks") == ["first", "second", "third"]
    assert (tmp_path / "meta.properties").exists()


def test_the_settings_are_kafkas() -> None:
    with ottla.embedded({"num.partitions": "5", "auto.create.topics.enable": "true"}) as broker:
        produce(broker.bootstrap_servers, "clicks", "a")
        topics = AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics("clicks").topics
        assert len(topics["clicks"].partitions) == 5


def test_the_log_tells_what_the_broker_did_and_is_let_go_of() -> None:
    handlers = list(logging.getLogger("ottla").handlers)
    with ottla.embedded() as broker:
        assert "this broker is the controller, epoch 1" in broker.log()
    assert logging.getLogger("ottla").handlers == handlers


def test_an_exception_in_the_block_stops_the_broker() -> None:
    with pytest.raises(ZeroDivisionError), ottla.embedded() as broker:
        raise ZeroDivisionError
    assert not is_listening(broker.bootstrap_servers)


def test_a_broker_that_cannot_start_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    handlers = list(logging.getLogger("ottla").handlers)
    with (
        ottla.embedded(data_dir=tmp_path),
        pytest.raises(StartupError, match="in use"),
        ottla.embedded(data_dir=tmp_path),
    ):
        pass
    assert logging.getLogger("ottla").handlers == handlers
    with ottla.embedded(data_dir=tmp_path) as broker:
        assert is_listening(broker.bootstrap_servers)


# Sudden ends and pauses


def test_a_killed_broker_comes_back_on_its_port_with_its_data() -> None:
    with ottla.embedded(QUICK) as broker:
        address = broker.bootstrap_servers
        produce(address, "clicks", "a", "b")
        broker.kill()
        assert not broker.is_running
        assert not is_listening(address)
        assert not (broker.data_dir / ".kafka_cleanshutdown").exists()
        broker.restart()
        assert broker.is_running
        assert broker.bootstrap_servers == address
        assert "was not closed cleanly" in broker.log()
        assert consume(address, "clicks") == ["a", "b"]


def test_a_client_gets_over_a_kill() -> None:
    with ottla.embedded(QUICK) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "reconnect.backoff.max.ms": 100})
        producer.produce("clicks", "before")
        assert producer.flush(60) == 0
        broker.kill()
        producer.produce("clicks", "meanwhile")
        assert producer.flush(0.2) == 1
        broker.restart()
        assert producer.flush(60) == 0
        assert consume(broker.bootstrap_servers, "clicks") == ["before", "meanwhile"]


def test_a_running_broker_is_restarted_cleanly() -> None:
    with ottla.embedded(QUICK) as broker:
        address = broker.bootstrap_servers
        produce(address, "clicks", "a")
        broker.restart()
        assert broker.bootstrap_servers == address
        assert "not closed cleanly" not in broker.log()
        assert consume(address, "clicks") == ["a"]


def test_a_kill_leaves_no_thread_and_no_lock(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    handlers = list(logging.getLogger("ottla").handlers)
    with ottla.embedded(QUICK, data_dir=tmp_path) as broker:
        produce(broker.bootstrap_servers, "clicks", "a")
        broker.kill()
        assert {thread for thread in threading.enumerate() if thread.name.startswith("ottla")} <= before
        assert logging.getLogger("ottla").handlers == handlers
        with ottla.embedded(QUICK, data_dir=tmp_path) as other:
            assert consume(other.bootstrap_servers, "clicks") == ["a"]
        broker.kill()  # A second kill does nothing, and neither does the end of the block.


def test_a_paused_broker_accepts_connections_and_answers_nothing() -> None:
    with ottla.embedded(QUICK) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("clicks", "before")
        assert producer.flush(60) == 0
        broker.pause()
        assert broker.is_paused
        assert is_listening(broker.bootstrap_servers)
        producer.produce("clicks", "meanwhile")
        assert producer.flush(0.3) == 1
        broker.resume()
        assert not broker.is_paused
        assert producer.flush(60) == 0
        assert consume(broker.bootstrap_servers, "clicks") == ["before", "meanwhile"]


def test_a_paused_broker_that_is_killed_processes_nothing_more() -> None:
    with ottla.embedded(QUICK) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "acks": 0})
        producer.produce("clicks", "before")
        assert producer.flush(60) == 0
        assert len(broker.consume("clicks", 1, timeout=60)) == 1
        broker.pause()
        producer.produce("clicks", "meanwhile")
        assert producer.flush(60) == 0, "without acks, the record is gone when it is sent"
        broker.kill()
        broker.restart()
        assert consume(broker.bootstrap_servers, "clicks") == ["before"]


def test_the_end_of_the_block_stops_a_paused_broker() -> None:
    with ottla.embedded(QUICK) as broker:
        broker.pause()
    assert not is_listening(broker.bootstrap_servers)


def test_recover_repairs_everything() -> None:
    with ottla.embedded(QUICK) as broker:
        fault = broker.faults.fail("Metadata", "UNKNOWN_SERVER_ERROR", times=None)
        broker.pause()
        broker.recover()
        assert not broker.is_paused
        assert not fault.is_active
        broker.kill()
        broker.recover()
        produce(broker.bootstrap_servers, "clicks", "a")
        assert consume(broker.bootstrap_servers, "clicks") == ["a"]


def test_a_broker_that_does_not_run_cannot_be_paused() -> None:
    with ottla.embedded(QUICK) as broker:
        broker.stop()
        with pytest.raises(RuntimeError, match="does not run"):
            broker.pause()


def test_a_broker_on_zookeeper_cannot_be_killed(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path, {"zookeeper.connect": "127.0.0.1:1"})
    with pytest.raises(ValueError, match="kill is not supported for a broker on ZooKeeper"):
        broker.kill()


def test_each_broker_has_its_own_log() -> None:
    with ottla.embedded(QUICK) as one, ottla.embedded(QUICK) as two:
        one.create_topic("only-on-one", config={"retention.ms": "1000"})
        one.produce("only-on-one", ["a"])
        one.clock.advance(hours=1)
        assert "only-on-one-0: retention removed" in one.log()
        assert "only-on-one" not in two.log()
