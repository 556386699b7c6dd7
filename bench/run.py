"""Goes through the cases, alternating between the brokers, and keeps what was measured."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from bench import brokers
from bench.brokers import Broker
from bench.case import Case, Scale, warm_up
from bench.measurement import Measurement, Row, summarize

Announce = Callable[[str], None]


@dataclass(slots=True)
class Results:
    measurements: list[Measurement] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def rows(self, cases: Sequence[Case]) -> list[Row]:
        """One for each metric of each case that was measured on any broker."""
        values: dict[tuple[str, str, str], dict[str, list[float]]] = {}
        for m in self.measurements:
            values.setdefault((m.family, m.case, m.metric), {}).setdefault(m.broker, []).append(m.value)
        return [
            Row(case.family, case.name, metric, {broker: summarize(each) for broker, each in found.items()})
            for case in cases
            for metric in case.metrics
            if (found := values.get((case.family, case.name, metric.name)))
        ]


class Session:
    """The warm brokers that cases share: started when first needed, all up until a case wants fresh ones."""

    def __init__(self, scale: Scale, announce: Announce) -> None:
        self._scale = scale
        self._announce = announce
        self._running: dict[str, tuple[Broker, contextlib.ExitStack]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def shared(self, name: str) -> Broker:
        if name not in self._running:
            self._announce(f"starting and warming up {name}")
            with contextlib.ExitStack() as stack:
                broker = stack.enter_context(brokers.start(name))
                warm_up(broker, self._scale)
                self._running[name] = broker, stack.pop_all()
        return self._running[name][0]

    def discard(self, name: str) -> None:
        """After a failure, the next case gets a new one."""
        if name in self._running:
            _, stack = self._running.pop(name)
            stack.close()

    def close(self) -> None:
        with contextlib.ExitStack() as stack:
            for _, each in self._running.values():
                stack.push(each)
            self._running.clear()

    @contextlib.contextmanager
    def broker_for(self, case: Case, name: str) -> Iterator[Broker]:
        if not case.fresh:
            yield self.shared(name)
            return
        self.close()
        with brokers.start(name, wait=case.wait) as broker:
            yield broker


def run(cases: Sequence[Case], repeats: int, scale: Scale, announce: Announce, advance: Callable[[], None]) -> Results:
    """All cases. One that fails is reported and left out; the others go on."""
    results = Results()
    with Session(scale, announce) as session:
        for case in cases:
            _run_case(case, repeats, scale, session, results, announce, advance)
    return results


def steps(case: Case, repeats: int) -> int:
    """How often `run` calls `advance` for a case."""
    return len(case.brokers) * (repeats + (0 if case.fresh else 1))


def _run_case(
    case: Case,
    repeats: int,
    scale: Scale,
    session: Session,
    results: Results,
    announce: Announce,
    advance: Callable[[], None],
) -> None:
    failed: set[str] = set()

    def step(name: str, what: str, action: Callable[[], None]) -> None:
        announce(f"{case.family}: {case.name}: {name}, {what}")
        if name not in failed:
            try:
                action()
            except Exception as error:
                failed.add(name)
                results.failures.append(f"{case.family}: {case.name}: {name}, {what}: {error}")
                session.discard(name)
        advance()

    if not case.fresh:
        for name in case.brokers:
            step(name, "unmeasured pass", lambda name=name: _prepare(case, session.shared(name), scale))  # type: ignore[misc]
    for repeat in range(repeats):
        for name in in_turn(case.brokers, repeat):
            what = f"repeat {repeat + 1} of {repeats}"
            step(name, what, lambda name=name: _measure(case, name, scale, session, results))  # type: ignore[misc]
    if not case.fresh:
        for name in case.brokers:
            if name not in failed:
                case.clean(session.shared(name), scale)


def in_turn(names: Sequence[str], repeat: int) -> Sequence[str]:
    """Who goes first changes with each repeat, so that a machine that slows down or speeds up favours nobody."""
    return names if repeat % 2 == 0 else names[::-1]


def _prepare(case: Case, broker: Broker, scale: Scale) -> None:
    case.prepare(broker, scale)
    case.measure(broker, scale.for_warm_up())


def _measure(case: Case, name: str, scale: Scale, session: Session, results: Results) -> None:
    with session.broker_for(case, name) as broker:
        if case.wait:
            brokers.settle(scale.settle_seconds)
        values = case.measure(broker, scale)
    results.measurements += [
        Measurement(case.family, case.name, metric, name, value) for metric, value in values.items()
    ]
