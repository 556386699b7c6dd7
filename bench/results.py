"""The measurements of a run, stored in a file from which the report can be generated again."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from bench.case import FULL, QUICK, Case, Scale
from bench.machine import Machine
from bench.measurement import Measurement, Metric, Row, Summary, summarize
from bench.workloads import FAMILIES


@dataclass(slots=True)
class Results:
    machine: Machine
    families: Sequence[str]
    repeats: int
    quick: bool = False
    spark_rows: list[int] = field(default_factory=list)
    """Numbers of rows in the topics that Spark reads, if they differ from the scale."""
    measurements: list[Measurement] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def scale(self) -> Scale:
        scale = QUICK if self.quick else FULL
        return replace(scale, spark_rows=tuple(self.spark_rows)) if self.spark_rows else scale

    @property
    def cases(self) -> list[Case]:
        return [case for family in self.families for case in FAMILIES[family](self.scale)]

    @property
    def rows(self) -> list[Row]:
        """One row for each metric of each case. Failed and missing cases have a row without values."""
        values: dict[tuple[str, str, str, str], list[float]] = {}
        for m in self.measurements:
            values.setdefault((m.family, m.case, m.metric, m.broker), []).append(m.value)

        def summaries(case: Case, metric: Metric) -> dict[str, Summary]:
            repeats = {name: values.get((case.family, case.name, metric.name, name)) for name in case.brokers}
            return {name: summarize(each) for name, each in repeats.items() if each}

        return [
            Row(case.family, case.name, metric, summaries(case, metric))
            for case in self.cases
            for metric in case.metrics
        ]

    def save(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(asdict(self), indent=1) + "\n")


def load(file: Path) -> Results:
    stored = json.loads(file.read_text())
    stored["machine"] = Machine(**stored["machine"])
    stored["measurements"] = [Measurement(**each) for each in stored["measurements"]]
    return Results(**stored)
