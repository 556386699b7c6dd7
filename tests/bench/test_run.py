"""The runner with brokers that are really started, and cases that cost nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from bench.brokers import SERVED_BY, Broker
from bench.case import Case, Scale
from bench.machine import Machine
from bench.measurement import NULL, NULL_FSYNC, Metric, Unit
from bench.results import Results
from bench.run import expected_seconds, run
from bench.workloads import FAMILIES

MACHINE = Machine("a processor", 2, 16.0, "Linux 6.1", "3.11.4", "17.0.1", "4.3.1", "0.1.0", "2.8.0", "2.8.0")
METRICS = (Metric("value", Unit.SECONDS, reference=NULL),)


@dataclass
class Recorder:
    fails_on: str = ""
    passes: list[str] = field(default_factory=list)
    pids: set[int] = field(default_factory=set)
    brokers: list[Broker] = field(default_factory=list)

    def measure(self, broker: Broker, scale: Scale) -> Mapping[str, float]:
        self.passes.append(broker.name)
        self.pids.add(broker.process.pid)
        self.brokers.append(broker)
        if broker.name == self.fails_on:
            raise RuntimeError("as asked")
        return {"value": 1.0}


def run_cases(monkeypatch: pytest.MonkeyPatch, cases: list[Case]) -> tuple[Results, float]:
    monkeypatch.setitem(FAMILIES, "family", lambda scale: cases)
    results = Results(MACHINE, ["family"], repeats=2, quick=True)
    steps: list[float] = []
    run(results, lambda text: None, steps.append)
    return results, sum(steps)


def case(name: str, recorder: Recorder, *, shape: str = "", fresh: bool = False) -> Case:
    brokers = (NULL, NULL_FSYNC)
    return Case("family", name, METRICS, recorder.measure, brokers, shape=shape, fresh=fresh, pass_seconds=3.0)


def test_brokers_take_turns_after_one_unmeasured_pass_for_each_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Recorder(), Recorder()
    cases = [case("one", first, shape="same"), case("two", second, shape="same")]
    results, seconds = run_cases(monkeypatch, cases)
    assert first.passes == [NULL, NULL, NULL_FSYNC, NULL_FSYNC, NULL_FSYNC, NULL]
    assert second.passes == [NULL, NULL_FSYNC, NULL_FSYNC, NULL]
    assert first.pids == second.pids
    assert len(results.measurements) == 8
    assert seconds == expected_seconds(cases, 2) == 24.0


def test_a_case_that_fails_on_one_broker_loses_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    failing, next_one = Recorder(fails_on=NULL), Recorder()
    results, seconds = run_cases(monkeypatch, [case("one", failing), case("two", next_one)])
    assert len(results.failures) == 1
    assert [(m.case, m.broker) for m in results.measurements].count(("one", NULL_FSYNC)) == 2
    assert [m.case for m in results.measurements].count("two") == 4
    assert seconds == 24.0
    assert all(broker.process.returncode is not None for broker in failing.brokers + next_one.brokers)


def test_a_fresh_broker_for_every_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    run_cases(monkeypatch, [case("one", recorder, fresh=True)])
    assert len(recorder.pids) == 4
    assert not any(broker.directory.exists() for broker in recorder.brokers)


class Client:
    def __init__(self) -> None:
        self.closed = False

    def close(self) -> None:
        self.closed = True


def test_clients_that_are_compared_share_a_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SERVED_BY, "one client", NULL)
    monkeypatch.setitem(SERVED_BY, "another", NULL)
    recorder, client = Recorder(), Client()

    def measure(broker: Broker, scale: Scale) -> Mapping[str, float]:
        broker.clients[broker.name] = client
        return recorder.measure(broker, scale)

    prepared: list[str] = []
    cleaned: list[str] = []
    compared = Case(
        "family",
        "one",
        (Metric("value", Unit.SECONDS, reference="one client"),),
        measure,
        ("one client", "another"),
        prepare=lambda broker, scale: prepared.append(broker.name),
        clean=lambda broker, scale: cleaned.append(broker.name),
    )
    results, _ = run_cases(monkeypatch, [compared])
    assert recorder.passes == ["one client", "one client", "another", "another", "another", "one client"]
    assert len(recorder.pids) == 1
    assert prepared == cleaned == [NULL]
    assert client.closed
    assert {m.broker for m in results.measurements} == {"one client", "another"}


def test_an_interrupt_ends_all_brokers_and_keeps_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()

    def interrupted(broker: Broker, scale: Scale) -> Mapping[str, float]:
        raise KeyboardInterrupt

    stopping = Case("family", "two", METRICS, interrupted, (NULL,))
    monkeypatch.setitem(FAMILIES, "family", lambda scale: [case("one", recorder), stopping])
    results = Results(MACHINE, ["family"], repeats=1, quick=True)
    with pytest.raises(KeyboardInterrupt):
        run(results, lambda text: None, lambda seconds: None)
    assert len(results.measurements) == 2
    assert all(broker.process.returncode is not None for broker in recorder.brokers)
