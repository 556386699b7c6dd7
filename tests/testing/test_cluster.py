"""`ottla.embedded_cluster()`: three real brokers."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

import ottla
from ottla import EmbeddedBroker, EmbeddedCluster

SECONDS = 60


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[EmbeddedCluster]:
    with ottla.embedded_cluster() as cluster:
        yield cluster


@pytest.fixture
def cluster(shared_cluster: EmbeddedCluster) -> Iterator[EmbeddedCluster]:
    yield shared_cluster
    shared_cluster.recover()


@pytest.fixture
def topic(cluster: EmbeddedCluster, request: pytest.FixtureRequest) -> str:
    name: str = request.node.name
    cluster.create_topic(name, 3)
    cluster.wait_until_in_sync()
    return name


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def send(cluster: EmbeddedCluster, topic: str, *values: str, **settings: Any) -> list[Any]:
    """Send with acks=all. Returns the errors."""
    defaults = {"bootstrap.servers": cluster.bootstrap_servers, "reconnect.backoff.max.ms": 100}
    producer = Producer({**defaults, **settings})
    errors: list[Any] = []
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(SECONDS) == 0
    return [error for error in errors if error is not None]


def test_three_brokers_share_the_work(cluster: EmbeddedCluster, topic: str) -> None:
    metadata = AdminClient({"bootstrap.servers": cluster.bootstrap_servers}).list_topics(timeout=SECONDS)
    assert set(metadata.brokers) == {1, 2, 3}
    partitions = metadata.topics[topic].partitions.values()
    assert {partition.leader for partition in partitions} == {1, 2, 3}
    assert all(sorted(partition.replicas) == sorted(partition.isrs) == [1, 2, 3] for partition in partitions)
    leader = {partition.id: partition.leader for partition in partitions}
    assert all(cluster.leader_of(topic, index) is cluster.broker(leader[index]) for index in range(3))
    assert send(cluster, topic, *"abc") == []
    assert {record.value for record in cluster.consume(topic)} == {b"a", b"b", b"c"}


def test_the_leader_is_killed(cluster: EmbeddedCluster, topic: str) -> None:
    assert send(cluster, topic, *"abc") == []
    former = cluster.leader_of(topic)
    former.kill()
    until(lambda: cluster.leader_of(topic) is not former)
    assert send(cluster, topic, *"def") == []
    former.restart()
    cluster.wait_until_in_sync()
    assert sorted(record.value or b"" for record in cluster.consume(topic)) == [b"a", b"b", b"c", b"d", b"e", b"f"]


def test_the_leader_is_paused(cluster: EmbeddedCluster, topic: str) -> None:
    former = cluster.leader_of(topic)
    former.pause()
    assert send(cluster, topic, *"abc") == []
    assert cluster.leader_of(topic) is not former
    former.resume()
    cluster.wait_until_in_sync()
    assert sorted(record.value or b"" for record in cluster.consume(topic)) == [b"a", b"b", b"c"]


def test_too_few_replicas(cluster: EmbeddedCluster, topic: str) -> None:
    leader = cluster.leader_of(topic)
    for broker in cluster.brokers:
        if broker is not leader:
            broker.kill()
    until(lambda: bool(send(cluster, topic, "a", **{"message.timeout.ms": 500})))
    with pytest.raises(TimeoutError, match=r"after 0.1 s: .*only \["):
        cluster.wait_until_in_sync(timeout=0.1)
    cluster.recover()
    assert send(cluster, topic, "b") == []


def test_the_coordinator_of_a_group(cluster: EmbeddedCluster, topic: str) -> None:
    cluster.produce(topic, ["a"])
    assert cluster.coordinator_of("readers") in cluster.brokers


def test_a_fault_of_the_cluster_affects_one_request_on_any_broker(cluster: EmbeddedCluster, topic: str) -> None:
    fault = cluster.faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=1)
    assert send(cluster, topic, *"abcdef", **{"retry.backoff.ms": 10}) == []
    assert fault.fired == 1


def test_a_fault_of_one_broker(cluster: EmbeddedCluster, topic: str) -> None:
    leader = cluster.leader_of(topic)
    others = [broker for broker in cluster.brokers if broker is not leader]
    unused = [broker.faults.drop_connection("InitProducerId") for broker in others]
    fault = leader.faults.fail("InitProducerId", "COORDINATOR_LOAD_IN_PROGRESS")
    settings = {"bootstrap.servers": leader.bootstrap_servers, "enable.idempotence": True}
    producer = Producer(settings)
    producer.produce(topic, "a", partition=0)
    assert producer.flush(SECONDS) == 0
    assert fault.fired + sum(each.fired for each in unused) >= 1


def test_replication_goes_on_while_clients_see_faults(cluster: EmbeddedCluster, topic: str) -> None:
    """Followers fetch, too, but faults are for clients."""
    fault = cluster.faults.fail("Fetch", "NOT_LEADER_OR_FOLLOWER", times=None)
    cluster.produce(topic, ["a"], timeout=SECONDS)
    assert fault.fired == 0


def test_time_passes_for_all_brokers(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("weekly", 3, config={"retention.ms": str(7 * 24 * 60 * 60 * 1000)})
    cluster.produce("weekly", ["a"] * 30)
    lost = cluster.log().count("session with the store is lost")
    cluster.clock.advance(days=8)
    assert cluster.consume("weekly", timeout=SECONDS) == []
    assert cluster.log().count("session with the store is lost") == lost
    cluster.wait_until_in_sync()
    assert send(cluster, "weekly", "b") == []


def test_a_cluster_keeps_its_data_for_the_next_run(tmp_path: Path) -> None:
    with ottla.embedded_cluster(data_dir=tmp_path) as cluster:
        cluster.create_topic("clicks")
        cluster.produce("clicks", ["a"])
    with ottla.embedded_cluster(data_dir=str(tmp_path)) as cluster:
        assert "not closed cleanly" not in cluster.log()
        assert [record.value for record in cluster.consume("clicks", 1, timeout=SECONDS)] == [b"a"]


def test_another_size_and_settings() -> None:
    with ottla.embedded_cluster({"num.partitions": "4"}, size=2) as cluster:
        assert send(cluster, "created-by-itself", "a") == []
        topics = AdminClient({"bootstrap.servers": cluster.bootstrap_servers}).list_topics(timeout=SECONDS).topics
        partitions = topics["created-by-itself"].partitions
        assert [sorted(partition.replicas) for partition in partitions.values()] == [[1, 2]] * 4
    assert not any(broker.is_running for broker in cluster.brokers)


def test_brokers_of_a_cluster_are_embedded_brokers(cluster: EmbeddedCluster) -> None:
    assert all(isinstance(broker, EmbeddedBroker) and broker.is_running for broker in cluster.brokers)
