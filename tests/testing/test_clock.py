"""Time travel: the clock alone, and what a broker does when its clock is advanced."""

import asyncio
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

import ottla
from ottla import EmbeddedBroker
from ottla.testing.clock import BrokerClock, TravelClock

DAY_MS = 24 * 60 * 60 * 1000
SECONDS = 60
SEVEN_DAYS = {"retention.ms": str(7 * DAY_MS)}


async def attached() -> tuple[TravelClock, BrokerClock]:
    clock = TravelClock()
    return clock, clock.attach()


async def advance(clock: TravelClock, **duration: float) -> None:
    """From another thread, as a test does."""
    await asyncio.to_thread(partial(clock.advance, **duration))


def test_it_runs_like_the_system_clock_until_it_is_advanced() -> None:
    async def check() -> None:
        clock, own = await attached()
        assert abs(own.monotonic() - time.monotonic()) < 10
        assert abs(own.time_ms() - time.time() * 1000) < 10_000
        await advance(clock, days=1, hours=1, minutes=1, seconds=1)
        assert abs(own.monotonic() - time.monotonic() - 90_061) < 10
        assert abs(own.time_ms() - time.time() * 1000 - 90_061_000) < 10_000
        assert abs(clock.time_ms() - own.time_ms()) < 10_000

    asyncio.run(check())


def test_due_timers_fire_once_in_order_and_others_later() -> None:
    async def check() -> None:
        clock, own = await attached()
        fired: list[str] = []
        own.call_later(7200, fired.append, "late")
        own.call_later(60, fired.append, "second")
        own.call_later(30, fired.append, "first")
        own.call_later(40, fired.append, "cancelled").cancel()
        own.call_later(5400, fired.append, "not yet")
        await advance(clock, hours=1)
        assert fired == ["first", "second"]
        await advance(clock, hours=1)
        assert fired == ["first", "second", "not yet", "late"]

    asyncio.run(check())


def test_timers_also_fire_by_themselves() -> None:
    async def check() -> None:
        clock, own = await attached()
        done = asyncio.Event()
        own.call_later(100.05, done.set)
        await advance(clock, seconds=100)
        await asyncio.wait_for(done.wait(), SECONDS)

    asyncio.run(check())


def test_advance_waits_for_the_tasks_that_timers_start() -> None:
    async def check() -> None:
        clock, own = await attached()
        finished: list[bool] = []

        async def work() -> None:
            await asyncio.sleep(0.1)
            finished.append(True)

        own.call_later(60, lambda: asyncio.ensure_future(work()))
        await advance(clock, minutes=1)
        assert finished == [True]

    asyncio.run(check())


def test_the_clock_never_goes_back() -> None:
    with pytest.raises(ValueError, match="cannot go back by 60 s"):
        TravelClock().advance(minutes=-1)


# A broker and real clients


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with ottla.embedded({"offsets.topic.num.partitions": "1"}) as broker:
        yield broker


def start_offset(broker: EmbeddedBroker, topic: str) -> Any:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    wanted = TopicPartition(topic, 0)
    return admin.list_offsets({wanted: OffsetSpec.earliest()})[wanted].result(SECONDS).offset


def test_retention_has_run_when_advance_returns(broker: EmbeddedBroker) -> None:
    broker.create_topic("clicks", config=SEVEN_DAYS)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for value in "abc":
        producer.produce("clicks", value)
    assert producer.flush(SECONDS) == 0
    broker.clock.advance(days=6)
    assert start_offset(broker, "clicks") == 0
    assert len(broker.consume("clicks")) == 3
    broker.clock.advance(days=2)
    assert start_offset(broker, "clicks") == 3
    assert broker.consume("clicks") == []


def test_the_files_of_removed_records_are_deleted_after_their_delay(broker: EmbeddedBroker) -> None:
    broker.create_topic("clicks", config=SEVEN_DAYS)
    broker.produce("clicks", ["a"])
    broker.clock.advance(days=8)
    removed = list(broker.data_dir.glob("clicks-0/*.deleted"))
    assert removed
    broker.clock.advance(minutes=2)
    deadline = time.monotonic() + SECONDS
    while any(path.exists() for path in removed) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(path.exists() for path in removed)


def test_records_produced_after_a_jump_stay(broker: EmbeddedBroker) -> None:
    """The methods of the broker use its clock. Other clients send their own time, except for LogAppendTime."""
    broker.create_topic("clicks", config=SEVEN_DAYS)
    broker.create_topic("stamped", config={**SEVEN_DAYS, "message.timestamp.type": "LogAppendTime"})
    broker.clock.advance(days=30)
    broker.produce("clicks", ["a"])
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce("stamped", "a")
    assert producer.flush(SECONDS) == 0
    broker.clock.advance(days=1)
    assert [record.value for record in broker.consume("clicks") + broker.consume("stamped")] == [b"a", b"a"]


def consumer_of(broker: EmbeddedBroker, topic: str, group: str) -> Any:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "enable.auto.commit": False, "heartbeat.interval.ms": 100})
    consumer.subscribe([topic])
    return consumer


def next_message(consumer: Any) -> Any:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            return message
    raise TimeoutError


def test_the_offsets_of_an_empty_group_expire(broker: EmbeddedBroker) -> None:
    broker.create_topic("clicks", config={"retention.ms": "-1"})
    broker.produce("clicks", ["a"])
    consumer = consumer_of(broker, "clicks", "readers")
    consumer.commit(next_message(consumer), asynchronous=False)
    consumer.close()

    def committed() -> list[int]:
        # A new client each time: the broker has closed connections that were idle for days, and librdkafka waits long
        # before it repeats a request that was on its way then.
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        asked = [ConsumerGroupTopicPartitions("readers", [TopicPartition("clicks", 0)])]
        return [
            it.offset for it in admin.list_consumer_group_offsets(asked)["readers"].result(SECONDS).topic_partitions
        ]

    broker.clock.advance(days=6)
    assert committed() == [1]
    broker.clock.advance(days=2)
    assert committed() == [-1001]  # librdkafka's number for "no offset".


def test_a_member_without_heartbeats_leaves_its_group_and_joins_again(broker: EmbeddedBroker) -> None:
    broker.create_topic("clicks")
    broker.produce("clicks", ["a"])
    consumer = consumer_of(broker, "clicks", "readers")
    assert next_message(consumer).value() == b"a"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})

    def members() -> set[str]:
        described = admin.describe_consumer_groups(["readers"])["readers"].result(SECONDS)
        return {member.member_id for member in described.members}

    before = members()
    broker.clock.advance(minutes=5)
    assert members().isdisjoint(before)
    deadline = time.monotonic() + SECONDS
    while not members() and time.monotonic() < deadline:
        consumer.poll(0.1)
    assert len(members()) == 1
    consumer.close()


def test_a_restarted_broker_keeps_its_time(broker: EmbeddedBroker) -> None:
    broker.create_topic("clicks", config=SEVEN_DAYS)
    broker.clock.advance(days=30)
    broker.produce("clicks", ["a"])
    broker.kill()
    broker.clock.advance(days=8)
    broker.restart()
    broker.clock.advance(minutes=6)  # The first check of a new run comes after log.retention.check.interval.ms.
    assert broker.consume("clicks") == []


def test_a_paused_broker_cannot_run_what_is_due(broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.testing.clock._SETTLE_SECONDS", -0.9)
    broker.pause()
    with pytest.raises(TimeoutError, match="a paused broker has to resume first"):
        broker.clock.advance(days=1)
    broker.resume()
