"""The raw generator and the null broker, each for a fraction of a second."""

import os
from collections.abc import Iterator
from dataclasses import replace

import pytest

from bench import wire
from bench.channel import ReplyError
from bench.generator import Kind, Load, run, run_fan_out, run_requests
from ottla.testing.embedded import EmbeddedBroker, embedded

SECONDS = 0.15


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with embedded() as running:
        yield running


@pytest.fixture
def topic(broker: EmbeddedBroker, request: pytest.FixtureRequest) -> str:
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    wire.create_topic(broker.bootstrap_servers, name, 2)
    return name


def load(bootstrap: str, topic: str, kind: Kind, connections: int, in_flight: int) -> Load:
    return Load(kind, bootstrap, os.getpid(), connections, in_flight, SECONDS, 0.05, topic=topic)


@pytest.mark.parametrize("size", [wire.SMALL_BATCH, 16_384, wire.LARGE_BATCH])
def test_batches_have_the_size_that_was_asked_for(size: int) -> None:
    assert len(wire.batch_of(size)) == size


def test_every_request_that_is_counted_was_appended(broker: EmbeddedBroker, topic: str) -> None:
    small = replace(load(broker.bootstrap_servers, topic, "produce", 3, 6), partitions=2, warmup_seconds=0.0)
    result = run_requests(small)
    ends = wire.end_offsets(broker.bootstrap_servers, topic, 2)
    assert result.requests <= sum(ends) <= result.requests + small.in_flight
    assert abs(ends[0] - ends[1]) <= small.in_flight
    assert 0 < result.p50_ms <= result.p99_ms
    assert result.seconds >= SECONDS


def test_connections_take_turns(broker: EmbeddedBroker, topic: str) -> None:
    many = replace(load(broker.bootstrap_servers, topic, "produce", 40, 2), warmup_seconds=0.0)
    assert run_requests(many).requests > 0


def test_what_was_produced_is_fetched_whole(broker: EmbeddedBroker, topic: str) -> None:
    produce = replace(load(broker.bootstrap_servers, topic, "produce", 2, 4), batch_bytes=200_000)
    assert run_requests(produce).requests > 4
    result = run_requests(replace(produce, kind="fetch", offsets=4))
    assert result.received_bytes >= (result.requests - produce.in_flight) * 200_000


def test_an_error_code_stops_the_load(broker: EmbeddedBroker, topic: str) -> None:
    with pytest.raises(ReplyError):
        run_requests(load(broker.bootstrap_servers, "no-" + topic, "produce", 1, 1))


@pytest.mark.parametrize("kind", ["fan-out", "free fan-out"])
def test_all_consumers_get_every_batch(broker: EmbeddedBroker, topic: str, kind: Kind) -> None:
    [before] = wire.end_offsets(broker.bootstrap_servers, topic)
    result = run_fan_out(replace(load(broker.bootstrap_servers, topic, kind, 5, 6), warmup_seconds=0.0))
    [after] = wire.end_offsets(broker.bootstrap_servers, topic)
    assert 0 < result.requests <= 5 * (after - before)
    if kind == "fan-out":
        assert result.requests >= 5 * (after - before - 1)


def test_the_generator_in_a_process_of_its_own(broker: EmbeddedBroker, topic: str) -> None:
    assert run(load(broker.bootstrap_servers, topic, "produce", 2, 2)).requests > 0
