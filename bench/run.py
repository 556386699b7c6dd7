"""Run the cases, alternating between the brokers, and collect the measurements."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import Self

from bench import brokers
from bench.brokers import SERVED_BY, Broker
from bench.case import WARMED_UP, Case, Scale, warm_up
from bench.measurement import Measurement
from bench.results import Results

Announce = Callable[[str], None]
Advance = Callable[[float], None]


@dataclass(slots=True)
class _Running:
    broker: Broker
    stack: contextlib.ExitStack
    prepared: set[str] = field(default_factory=set)
    warm: set[tuple[str, str]] = field(default_factory=set)
    """Measured subjects and the load shapes that the broker has already served for them."""


class Session:
    """The warm brokers that cases share. Each is started at first use and runs until a case needs fresh brokers."""

    def __init__(self, scale: Scale, announce: Announce) -> None:
        self._scale = scale
        self.announce = announce
        self._running: dict[tuple[str, int], _Running] = {}
        """Running brokers by name and number of nodes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextlib.contextmanager
    def broker_for(self, case: Case, name: str) -> Iterator[Broker]:
        """A fresh broker, or the shared one, prepared for the case and warmed up with its shape of load."""
        if case.fresh:
            self.close()
            self.announce(f"{case}: {name}, starting")
            with _start(name, case.nodes, wait=case.wait) as broker:
                yield broker
            return
        running = self._shared(name, case.nodes)
        if str(case) not in running.prepared:
            case.prepare(running.broker, self._scale)
            running.prepared.add(str(case))
        broker = replace(running.broker, name=name)
        shape = case.shape or str(case)
        if shape != WARMED_UP and (name, shape) not in running.warm:
            self.announce(f"{case}: {name}, unmeasured pass")
            case.measure(broker, self._scale)
            running.warm.add((name, shape))
        yield broker

    @property
    def shared(self) -> list[Broker]:
        return [running.broker for running in self._running.values()]

    def clean(self, case: Case, name: str) -> None:
        """Undo the preparation."""
        running = self._running.get((SERVED_BY.get(name, name), case.nodes))
        if running is not None and str(case) in running.prepared:
            running.prepared.discard(str(case))
            case.clean(running.broker, self._scale)

    def discard(self, case: Case, name: str) -> None:
        """Stop the broker after a failure, so that the next case gets a new one."""
        running = self._running.pop((SERVED_BY.get(name, name), case.nodes), None)
        if running is not None:
            running.stack.close()

    def close(self) -> None:
        with contextlib.ExitStack() as stack:
            for each in self._running.values():
                stack.push(each.stack)
            self._running.clear()

    def _shared(self, name: str, nodes: int) -> _Running:
        """A cluster never runs at the same time as other brokers, which would compete for memory and cores."""
        server = SERVED_BY.get(name, name)
        key = server, nodes
        if key not in self._running:
            if any(others != nodes for _, others in self._running):
                self.close()
            self.announce(f"starting and warming up {server}")
            with contextlib.ExitStack() as stack:
                broker = stack.enter_context(_start(server, nodes))
                if nodes == 1:
                    warm_up(broker, self._scale)
                self._running[key] = _Running(broker, stack.pop_all())
        return self._running[key]


def _start(name: str, nodes: int, *, wait: bool = True) -> contextlib.AbstractContextManager[Broker]:
    return brokers.start(name, wait=wait) if nodes == 1 else brokers.start_cluster(name, nodes)


def expected_seconds(cases: Sequence[Case], repeats: int) -> float:
    """The sum of the seconds that `run` passes to `advance`."""
    return sum(case.pass_seconds * len(case.brokers) * repeats for case in cases)


def run(results: Results, announce: Announce, advance: Advance) -> None:
    """Run all cases. A failed case is reported, and the run continues."""
    with Session(results.scale, announce) as session:
        for case in results.cases:
            _run_case(case, session, results, advance)


def _run_case(case: Case, session: Session, results: Results, advance: Advance) -> None:
    failed: set[str] = set()

    def attempt(name: str, what: str, action: Callable[[], None]) -> None:
        if name in failed:
            return
        try:
            action()
        except Exception as error:
            failed.add(name)
            results.failures.append(f"{case}: {name}, {what}: {error}")
            session.discard(case, name)

    for repeat in range(results.repeats):
        what = f"repeat {repeat + 1} of {results.repeats}"
        for name in in_turn(case.brokers, repeat):
            attempt(name, what, partial(_measure, case, name, what, session, results))
            advance(case.pass_seconds)
    for name in case.brokers:
        attempt(name, "cleaning up", partial(session.clean, case, name))


def in_turn(names: Sequence[str], repeat: int) -> Sequence[str]:
    """Reverse the order in every other repeat, so that a machine that slows down or speeds up favours no broker."""
    return names if repeat % 2 == 0 else names[::-1]


def _measure(case: Case, name: str, what: str, session: Session, results: Results) -> None:
    with session.broker_for(case, name) as broker:
        session.announce(f"{case}: {name}, {what}")
        if case.wait:
            brokers.touch_pages(results.scale.page_bytes)
            brokers.settle(results.scale.settle_seconds, session.shared if not case.fresh else [broker])
        values = case.measure(broker, results.scale)
    results.measurements += [
        Measurement(case.family, case.name, metric, name, value) for metric, value in values.items()
    ]
