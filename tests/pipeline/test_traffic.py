"""Traffic is the same for the same seed, goes forward in time, and fits the schemas."""

import json
from datetime import UTC, datetime
from itertools import islice

import pytest

from ottla.pipeline import traffic
from ottla.pipeline.loading import BUILT_IN, load_part, load_target
from ottla.pipeline.records import read_messages
from ottla.pipeline.traffic import Pace, encode, paced, send
from ottla.testing.embedded import EmbeddedBroker

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("name", BUILT_IN)
def test_events(name: str) -> None:
    module = load_part(name, "traffic")
    events = list(islice(module.events(START), 3000))
    assert events == list(islice(module.events(START), 3000))
    assert events[:50] != list(islice(module.events(START, seed=2), 50))
    times = [event.at for event in events]
    assert times == sorted(times)
    assert times[0] >= START
    assert {event.topic for event in events} == set(module.TOPICS)


@pytest.mark.parametrize("name", [name for name in BUILT_IN if name != "export"])
def test_events_have_the_fields_of_the_schema(name: str) -> None:
    columns: dict[str, set[str]] = {}
    for each in load_target(name).pipelines:
        for source in each.sources:
            assert isinstance(source.schema, str)
            names = {field.split()[0] for field in source.schema.split(", ")}
            columns |= dict.fromkeys(source.topics, names)
    for event in islice(load_part(name, "traffic").events(START), 2000):
        assert set(json.loads(encode(event) or b"")) == columns[event.topic]


def test_sending(ottla_broker: EmbeddedBroker) -> None:
    module = load_part("export", "traffic", {"topic": "traffic-test"})
    pace = Pace(records=500, garbage=0.1)
    assert send(module.events(START), module.TOPICS, ottla_broker.bootstrap_servers, pace) == 500
    messages = list(read_messages(ottla_broker.bootstrap_servers, "traffic-test"))
    good = [message for message in messages if message.value().startswith(b'{"user"')]
    assert len(messages) == 500
    assert 400 < len(good) < 490
    assert {message.partition() for message in messages} == {0, 1, 2}


class ManualTime:
    """The time that `paced` sees: it passes only while `paced` sleeps."""

    def __init__(self) -> None:
        self.now = 50.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_a_pace_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualTime()
    monkeypatch.setattr(traffic, "time", clock)
    module = load_part("export", "traffic", {"topic": "pace-test"})
    sent = [clock.now - 50.0 for _ in paced(module.events(START), Pace(rate=2000, seconds=0.5))]
    # The check of the limit comes every 0.05 s: the last 100 events are those of the moment at which time is up.
    assert 1000 <= len(sent) <= 1100
    assert all(index / 2000 - 0.1 <= moment <= index / 2000 + 1e-6 for index, moment in enumerate(sent))


def test_a_sender_stops_when_its_time_is_up(ottla_broker: EmbeddedBroker) -> None:
    module = load_part("export", "traffic", {"topic": "pace-test"})
    pace = Pace(rate=2000, seconds=0.5)
    assert 0 < send(module.events(START), module.TOPICS, ottla_broker.bootstrap_servers, pace) <= 1100
