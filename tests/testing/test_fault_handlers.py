"""Faults as real clients see them."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import GroupAuthorizationFailedError, KafkaConnectionError, TopicAuthorizationFailedError
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaPythonPartition
from kafka.errors import OffsetOutOfRangeError

import ottla
from ottla import EmbeddedBroker

SETTINGS = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
SECONDS = 60
"""A generous limit for what takes milliseconds."""


@pytest.fixture(scope="module")
def shared_broker() -> Iterator[EmbeddedBroker]:
    with ottla.embedded(SETTINGS) as broker:
        yield broker


@pytest.fixture
def broker(shared_broker: EmbeddedBroker) -> Iterator[EmbeddedBroker]:
    yield shared_broker
    shared_broker.faults.clear()


@pytest.fixture
def topic(broker: EmbeddedBroker, request: pytest.FixtureRequest) -> str:
    name: str = request.node.name.replace("[", "-").replace("]", "")
    broker.create_topic(name)
    return name


def send(broker: EmbeddedBroker, topic: str, value: str, **settings: Any) -> Any:
    """Send one record with confluent-kafka. Returns the error, or None."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "retry.backoff.ms": 10, **settings})
    results: list[Any] = []
    producer.produce(topic, value, on_delivery=lambda error, _: results.append(error))
    assert producer.flush(SECONDS) == 0
    return results[0]


def subscribe(broker: EmbeddedBroker, topic: str, **settings: Any) -> Any:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "fetch.error.backoff.ms": 10,
            **settings,
        }
    )
    consumer.subscribe([topic])
    return consumer


def poll(consumer: Any) -> Any:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        message = consumer.poll(0.1)
        if message is not None:
            return message
    raise TimeoutError


def values(broker: EmbeddedBroker, topic: str) -> list[bytes | None]:
    return [record.value for record in broker.consume(topic, timeout=SECONDS)]


# Errors, confluent-kafka


def test_a_retriable_error_is_retried(broker: EmbeddedBroker, topic: str) -> None:
    fault = broker.faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)
    assert send(broker, topic, "a") is None
    assert fault.fired == 2
    assert values(broker, topic) == [b"a"]


def test_a_final_error_is_reported_and_nothing_was_processed(broker: EmbeddedBroker, topic: str) -> None:
    broker.faults.fail("Produce", "TOPIC_AUTHORIZATION_FAILED")
    assert send(broker, topic, "a").code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert values(broker, topic) == []


def test_a_produce_request_without_acks_loses_its_connection(broker: EmbeddedBroker, topic: str) -> None:
    fault = broker.faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER")
    send(broker, topic, "a", acks=0)
    fault.wait(timeout=SECONDS)
    assert values(broker, topic) == []


def test_only_requests_that_name_the_topic_fail(broker: EmbeddedBroker, topic: str) -> None:
    broker.create_topic(f"{topic}-other")
    fault = broker.faults.fail("Produce", "TOPIC_AUTHORIZATION_FAILED", times=None, topic=topic)
    assert send(broker, f"{topic}-other", "a") is None
    assert fault.fired == 0
    assert send(broker, topic, "b").code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert fault.fired == 1


def test_the_commit_of_a_transaction_is_retried(broker: EmbeddedBroker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce(topic, "a")
    fault = broker.faults.fail("EndTxn", "COORDINATOR_NOT_AVAILABLE", times=1)
    producer.commit_transaction(SECONDS)
    assert fault.fired == 1
    assert values(broker, topic) == [b"a"]


def test_a_fenced_producer_is_told_so(broker: EmbeddedBroker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce(topic, "a")
    broker.faults.fail("EndTxn", "PRODUCER_FENCED")
    with pytest.raises(KafkaException) as raised:
        producer.commit_transaction(SECONDS)
    assert raised.value.args[0].fatal()


def test_a_failed_commit_of_offsets(broker: EmbeddedBroker, topic: str) -> None:
    broker.produce(topic, ["a"])
    consumer = subscribe(broker, topic, **{"enable.auto.commit": False})
    message = poll(consumer)
    fault = broker.faults.fail("OffsetCommit", "GROUP_AUTHORIZATION_FAILED", topic=topic)
    with pytest.raises(KafkaException) as raised:
        consumer.commit(message, asynchronous=False)
    assert raised.value.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    assert fault.fired == 1
    consumer.commit(message, asynchronous=False)
    assert consumer.committed([TopicPartition(topic, 0)], SECONDS)[0].offset == 1
    consumer.close()


def test_a_heartbeat_makes_a_consumer_join_again(broker: EmbeddedBroker, topic: str) -> None:
    broker.produce(topic, ["a"])
    consumer = subscribe(broker, topic, **{"heartbeat.interval.ms": 50})
    assert poll(consumer).value() == b"a"
    lost = broker.faults.fail("Heartbeat", "UNKNOWN_MEMBER_ID")
    joined = broker.faults.delay("JoinGroup", 0)
    deadline = time.monotonic() + SECONDS
    while not (lost.fired and joined.fired) and time.monotonic() < deadline:
        consumer.poll(0.05)
    assert (lost.fired, joined.fired) == (1, 1)
    consumer.close()


def test_an_offset_out_of_range(broker: EmbeddedBroker, topic: str) -> None:
    broker.produce(topic, ["a"])
    broker.faults.fail("Fetch", "OFFSET_OUT_OF_RANGE", topic=topic)
    consumer = subscribe(broker, topic, **{"auto.offset.reset": "error", "enable.auto.commit": False})
    consumer.unsubscribe()
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert poll(consumer).error().code() == KafkaError._AUTO_OFFSET_RESET
    consumer.close()


def test_metadata_with_an_error_names_the_brokers(broker: EmbeddedBroker, topic: str) -> None:
    fault = broker.faults.fail("Metadata", "LEADER_NOT_AVAILABLE", times=2, topic=topic)
    assert send(broker, topic, "a", **{"topic.metadata.refresh.fast.interval.ms": 20}) is None
    assert fault.fired == 2


def test_metadata_of_one_topic(broker: EmbeddedBroker, topic: str) -> None:
    fault = broker.faults.fail("Metadata", "TOPIC_AUTHORIZATION_FAILED", times=None, topic=topic)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    assert admin.list_topics(topic, timeout=SECONDS).topics[topic].error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    fault.remove()
    assert admin.list_topics(topic, timeout=SECONDS).topics[topic].error is None


@pytest.mark.parametrize(
    "api, error",
    [
        ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
        ("SyncGroup", "REBALANCE_IN_PROGRESS"),
        ("OffsetFetch", "COORDINATOR_LOAD_IN_PROGRESS"),
    ],
)
def test_a_consumer_gets_over_errors_of_its_group(broker: EmbeddedBroker, topic: str, api: str, error: str) -> None:
    broker.produce(topic, ["a"])
    fault = broker.faults.fail(api, error)
    consumer = subscribe(broker, topic)
    assert poll(consumer).value() == b"a"
    assert fault.fired == 1
    consumer.close()


def test_the_methods_of_the_broker_see_no_faults(broker: EmbeddedBroker, topic: str) -> None:
    faults = [broker.faults.drop_connection(api, times=None) for api in ("Produce", "Fetch", "Metadata", "ApiVersions")]
    broker.produce(topic, ["a"])
    assert values(broker, topic) == [b"a"]
    assert [fault.fired for fault in faults] == [0, 0, 0, 0]


# Lost connections and delays, confluent-kafka


def test_a_connection_that_is_dropped_before_the_request_is_processed(broker: EmbeddedBroker, topic: str) -> None:
    fault = broker.faults.drop_connection("Produce")
    error = send(broker, topic, "a", **{"message.send.max.retries": 0, "reconnect.backoff.ms": 10})
    assert error is not None
    assert fault.fired == 1
    assert values(broker, topic) == []
    broker.faults.drop_connection("Produce")
    assert send(broker, topic, "b", **{"reconnect.backoff.ms": 10}) is None
    assert values(broker, topic) == [b"b"]


@pytest.mark.parametrize("idempotent", [False, True])
def test_a_lost_reply_shows_whether_a_producer_is_idempotent(
    broker: EmbeddedBroker, topic: str, idempotent: bool
) -> None:
    fault = broker.faults.drop_connection("Produce", after=True)
    assert send(broker, topic, "a", **{"enable.idempotence": idempotent, "reconnect.backoff.ms": 10}) is None
    assert fault.fired == 1
    assert values(broker, topic) == ([b"a"] if idempotent else [b"a", b"a"])


def test_a_reply_that_is_lost_after_a_task(broker: EmbeddedBroker, topic: str) -> None:
    fault = broker.faults.drop_connection("CreateTopics", after=True)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "reconnect.backoff.ms": 10})
    with pytest.raises(KafkaException):
        admin.create_topics([NewTopic(f"{topic}-new", 1)])[f"{topic}-new"].result(SECONDS)
    assert fault.fired == 1
    assert f"{topic}-new" in admin.list_topics(timeout=SECONDS).topics


def test_a_lost_reply_of_a_fetch(broker: EmbeddedBroker, topic: str) -> None:
    """The Fetch waits for records first, and its connection is dropped when it would be answered."""
    fault = broker.faults.drop_connection("Fetch", after=True, topic=topic)
    consumer = subscribe(broker, topic, **{"reconnect.backoff.ms": 10, "fetch.wait.max.ms": 100})
    deadline = time.monotonic() + SECONDS
    while not fault.fired and time.monotonic() < deadline:
        consumer.poll(0.05)
    broker.produce(topic, ["a"])
    while (message := poll(consumer)).error() is not None:
        assert message.error().code() == KafkaError._ALL_BROKERS_DOWN
    assert message.value() == b"a"
    consumer.close()


def test_a_delayed_reply(broker: EmbeddedBroker, topic: str) -> None:
    fault = broker.faults.delay("Produce", 0.4)
    began = time.monotonic()
    assert send(broker, topic, "a") is None
    assert time.monotonic() - began >= 0.4
    assert fault.fired == 1
    assert values(broker, topic) == [b"a"]


def test_a_delayed_request_is_processed_at_once(broker: EmbeddedBroker, topic: str) -> None:
    broker.faults.delay("Produce", 3600)
    error = send(broker, topic, "a", **{"message.timeout.ms": 500})
    assert error.code() == KafkaError._MSG_TIMED_OUT
    assert values(broker, topic) == [b"a"]


def test_time_travel_ends_a_delay(broker: EmbeddedBroker, topic: str) -> None:
    fault = broker.faults.delay("Produce", 3600)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    errors: list[Any] = []
    producer.produce(topic, "a", on_delivery=lambda error, _: errors.append(error))
    fault.wait(timeout=SECONDS)
    assert errors == []
    broker.clock.advance(hours=1)
    assert producer.flush(SECONDS) == 0
    assert errors == [None]


@pytest.mark.parametrize("api", ["Metadata", "CreateTopics", "Fetch", "JoinGroup"])
def test_every_kind_of_reply_can_be_delayed(broker: EmbeddedBroker, topic: str, api: str) -> None:
    fault = broker.faults.delay(api, 0.2)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(f"{topic}-new", 1)])[f"{topic}-new"].result(SECONDS)
    assert send(broker, f"{topic}-new", "a") is None
    consumer = subscribe(broker, f"{topic}-new")
    assert poll(consumer).value() == b"a"
    assert fault.fired == 1
    consumer.close()


# aiokafka


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(SECONDS):
            await test()

    asyncio.run(limited())


def test_aiokafka_retries_an_error(broker: EmbeddedBroker, topic: str) -> None:
    fault = broker.faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER", topic=topic)

    async def send() -> None:
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, retry_backoff_ms=10) as producer:
            await producer.send_and_wait(topic, b"a")

    run(send)
    assert fault.fired == 1
    assert values(broker, topic) == [b"a"]


def test_aiokafka_raises_an_error(broker: EmbeddedBroker, topic: str) -> None:
    broker.faults.fail("Produce", "TOPIC_AUTHORIZATION_FAILED")

    async def send() -> None:
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            with pytest.raises(TopicAuthorizationFailedError):
                await producer.send_and_wait(topic, b"a")

    run(send)


def test_aiokafka_commits_a_transaction_despite_an_error(broker: EmbeddedBroker, topic: str) -> None:
    fault = broker.faults.fail("EndTxn", "COORDINATOR_NOT_AVAILABLE", times=1)

    async def send() -> None:
        settings = {"bootstrap_servers": broker.bootstrap_servers, "transactional_id": topic}
        async with AIOKafkaProducer(**settings) as producer, producer.transaction():
            await producer.send_and_wait(topic, b"a")

    run(send)
    assert fault.fired == 1
    assert values(broker, topic) == [b"a"]


def test_aiokafka_and_a_failed_commit_of_offsets(broker: EmbeddedBroker, topic: str) -> None:
    broker.produce(topic, ["a"])

    async def consume() -> None:
        settings = {"group_id": topic, "auto_offset_reset": "earliest", "enable_auto_commit": False}
        async with AIOKafkaConsumer(topic, bootstrap_servers=broker.bootstrap_servers, **settings) as consumer:
            assert (await consumer.getone()).value == b"a"
            fault = broker.faults.fail("OffsetCommit", "GROUP_AUTHORIZATION_FAILED")
            with pytest.raises(GroupAuthorizationFailedError):
                await consumer.commit()
            assert fault.fired == 1

    run(consume)


def test_aiokafka_survives_a_dropped_connection(broker: EmbeddedBroker, topic: str) -> None:
    broker.produce(topic, ["a"])
    fault = broker.faults.drop_connection("Fetch", topic=topic)

    async def consume() -> None:
        settings = {"auto_offset_reset": "earliest", "retry_backoff_ms": 10}
        async with AIOKafkaConsumer(topic, bootstrap_servers=broker.bootstrap_servers, **settings) as consumer:
            assert (await consumer.getone()).value == b"a"

    run(consume)
    assert fault.fired == 1


def test_aiokafka_cannot_connect(broker: EmbeddedBroker) -> None:
    broker.faults.drop_connection("ApiVersions", times=None)
    broker.faults.drop_connection("Metadata", times=None)

    async def connect() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        with pytest.raises(KafkaConnectionError):
            await producer.start()
        await producer.stop()

    run(connect)


# A client with fetch sessions


def _poll_until(consumer: Any, deadline: float) -> None:
    while time.monotonic() < deadline:
        consumer.poll(100)


def test_an_error_reaches_a_client_in_the_middle_of_a_fetch_session(broker: EmbeddedBroker, topic: str) -> None:
    """Within a session, requests name only what has changed, so the broker has to end the session first."""
    broker.produce(topic, ["a"])
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers,
        auto_offset_reset="none",
        enable_auto_commit=False,
        fetch_max_wait_ms=50,
        group_id=None,
    )
    partition = KafkaPythonPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek(partition, 0)
    deadline = time.monotonic() + SECONDS
    while not consumer.poll(100):
        assert time.monotonic() < deadline
    for _ in range(3):
        consumer.poll(60)
    fault = broker.faults.fail("Fetch", "OFFSET_OUT_OF_RANGE", topic=topic)
    with pytest.raises(OffsetOutOfRangeError):
        _poll_until(consumer, deadline)
    assert fault.fired == 1
    consumer.close()
