"""The measured rate: bytes per second over the last samples."""

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.config.broker import BrokerConfig
from ottla.config.topic import topic_config
from ottla.model import TopicPartition
from ottla.replication.throttling import ByteRate, ReplicationThrottles
from tests.manual_clock import ManualClock

RATE = "leader.replication.throttled.rate"


def rate(clock: ManualClock, limit: int | None) -> ByteRate:
    config = BrokerConfig({} if limit is None else {RATE: str(limit)})
    return ByteRate(RATE, "replication.quota.window", clock, lambda: config)


def test_without_a_limit_nothing_is_too_fast() -> None:
    unlimited = rate(ManualClock(), None)
    unlimited.record(1 << 40)
    assert not unlimited.is_exceeded()


def test_a_burst_is_paid_for_later() -> None:
    clock = ManualClock()
    limited = rate(clock, 100)
    assert not limited.is_exceeded()
    limited.record(100)
    assert not limited.is_exceeded(), "as fast as allowed is not too fast"
    limited.record(400)
    assert limited.is_exceeded()
    clock.advance(4.9)
    assert limited.is_exceeded()
    clock.advance(0.2)
    assert not limited.is_exceeded()


def test_what_is_long_ago_is_forgotten() -> None:
    clock = ManualClock()
    limited = rate(clock, 100)
    limited.record(1_000_000)
    clock.advance(11.1)
    assert not limited.is_exceeded()
    limited.record(101)
    assert limited.is_exceeded()


def test_small_pieces_add_up() -> None:
    clock = ManualClock()
    limited = rate(clock, 100)
    for _ in range(100):
        limited.record(11)
        clock.advance(0.1)
    assert limited.is_exceeded()


@pytest.mark.parametrize(
    ("settings", "limit"),
    [
        ({}, None),
        ({"cluster.rebalance.throttled.rate": "100"}, 100),
        ({"cluster.rebalance.throttled.rate": "100", "follower.replication.throttled.rate": "300"}, 300),
    ],
)
def test_replicas_that_are_added_have_a_limit_of_their_own(settings: dict[str, str], limit: int | None) -> None:
    clock = ManualClock()
    config = BrokerConfig(settings)
    throttles = ReplicationThrottles(4, clock, lambda: config)
    added, other = (partition(config, is_being_added) for is_being_added in (True, False))
    assert throttles.as_follower.concerns(added)
    assert not throttles.as_follower.concerns(other), "no setting of the topic names it"
    assert not throttles.as_leader.concerns(added)
    for size in (limit or 1000, 1):
        assert not throttles.as_follower.is_exceeded()
        throttles.as_follower.record(size)
    assert throttles.as_follower.is_exceeded() is (limit is not None)


def partition(config: BrokerConfig, is_being_added: bool) -> Any:
    key = TopicPartition("t", 0)
    return SimpleNamespace(config=topic_config(config, {}), topic_partition=key, is_being_added=is_being_added)
