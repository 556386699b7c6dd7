"""The measured rate: bytes per second over the last samples."""

from ottla.config.broker import BrokerConfig
from ottla.replication.throttling import ByteRate
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
