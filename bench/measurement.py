"""The results of a run: measurements, medians of repeats, and the comparison of two brokers."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

KAFKA = "Kafka"
OTTLA = "Ottla"
NULL = "null broker"
NULL_FSYNC = "fsync per request"
CONNECTOR = "JVM connector"
TUNED_CONNECTOR = "JVM connector, tuned"

_NOTHING = 1e-9
"""Values below this are rounding errors."""


class Unit(StrEnum):
    RECORDS_PER_SECOND = "records/s"
    ROWS_PER_SECOND = "rows/s"
    REQUESTS_PER_SECOND = "requests/s"
    DELIVERIES_PER_SECOND = "deliveries/s"
    MEGABYTES_PER_SECOND = "MB/s"
    MILLISECONDS = "ms"
    SECONDS = "s"
    MICROSECONDS_PER_REQUEST = "us/request"
    MICROSECONDS_PER_ROW = "CPU us/row"
    SECONDS_PER_GIGABYTE = "CPU s/GB"
    MEGABYTES = "MB"
    KILOBYTES_EACH = "KB each"
    MICROSECONDS_PER_SECOND_EACH = "CPU us/s each"
    TIMES = "times"


@dataclass(frozen=True, slots=True)
class Bar:
    """The limit that the ratio of Ottla to the reference has to meet. Several rows may share one bar."""

    limit: float
    at_least: bool
    what: str

    def met_by(self, ratio: float) -> bool:
        return ratio >= self.limit if self.at_least else ratio <= self.limit

    def __str__(self) -> str:
        return f"{'at least' if self.at_least else 'at most'} {_fraction(self.limit)}"


def at_least(limit: float, what: str) -> Bar:
    return Bar(limit, at_least=True, what=what)


def at_most(limit: float, what: str) -> Bar:
    return Bar(limit, at_least=False, what=what)


@dataclass(frozen=True, slots=True)
class Metric:
    """One number that a case measures. Without a bar it is only shown."""

    name: str
    unit: Unit
    bar: Bar | None = None
    reference: str = KAFKA
    plotted: bool = False


@dataclass(frozen=True, slots=True)
class Measurement:
    family: str
    case: str
    metric: str
    broker: str
    value: float


@dataclass(frozen=True, slots=True)
class Summary:
    """The repeats of one measurement."""

    median: float
    spread: float
    """The largest distance of a repeat from the median, relative to the median."""
    repeats: int


def summarize(values: Iterable[float]) -> Summary:
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no repeats to summarize")
    middle = median(ordered)
    spread = max(ordered[-1] - middle, middle - ordered[0]) / abs(middle) if abs(middle) > _NOTHING else 0.0
    return Summary(middle, spread, len(ordered))


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the report."""

    family: str
    case: str
    metric: Metric
    summaries: Mapping[str, Summary]

    @property
    def reference(self) -> Summary | None:
        return self.summaries.get(self.metric.reference)

    @property
    def ottla(self) -> Summary | None:
        return self.summaries.get(OTTLA)

    @property
    def ratio(self) -> float | None:
        """Ottla's median divided by the reference's. None if one was not measured or the reference is 0."""
        if self.reference is None or self.ottla is None or self.reference.median <= 0:
            return None
        return self.ottla.median / self.reference.median

    @property
    def target(self) -> float | None:
        """The value with which Ottla would just meet the bar."""
        return self.metric.bar.limit * self.reference.median if self.metric.bar and self.reference else None

    @property
    def met(self) -> bool | None:
        if self.metric.bar is None or self.ratio is None:
            return None
        return self.metric.bar.met_by(self.ratio)


def percentile(ordered: list[int] | list[float], share: float) -> float:
    """The percentile of an ordered list, by nearest rank."""
    if not ordered:
        raise ValueError("no values")
    return float(ordered[min(len(ordered) - 1, int(len(ordered) * share))])


def _fraction(limit: float) -> str:
    inverse = 1 / limit
    if limit < 1 and abs(inverse - round(inverse)) < 1e-9:
        return f"1/{round(inverse)}"
    return f"{limit:g}x"
