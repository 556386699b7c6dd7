"""The figures of Spark's progress reports that users see."""

import json
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ottla.model import TopicPartition

RECENT = 240
"""Number of batches kept in memory: several minutes of a running pipeline, enough for the charts."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One finished micro-batch."""

    number: int
    at: str
    """Start time, in UTC."""
    rows: int
    rows_per_second: float
    milliseconds: int
    lag: int
    """Records in the log that were not read yet when the batch was planned."""
    state_rows: int = 0
    state_bytes: int = 0
    watermark: str | None = None
    dead_letters: int = 0
    worked: bool = True
    """False if Spark checked for new data and found none."""


@dataclass(slots=True)
class QueryState:
    """The state of a running query, as shown to users."""

    pipeline: str
    sink: str
    rows: int = 0
    dead_letters: int = 0
    batches: int = 0
    recent: deque[Batch] = field(default_factory=lambda: deque(maxlen=RECENT))

    @property
    def last(self) -> Batch | None:
        return self.recent[-1] if self.recent else None

    def add(self, batch: Batch) -> None:
        """A trigger without data reports no state figures, so those of the last batch are kept."""
        if not batch.worked and self.last is not None:
            batch = replace(batch, state_rows=self.last.state_rows, state_bytes=self.last.state_bytes)
        self.rows += batch.rows
        self.dead_letters += batch.dead_letters
        self.batches += batch.worked
        self.recent.append(batch)

    def as_json(self) -> dict[str, Any]:
        return {
            "pipeline": self.pipeline,
            "sink": self.sink,
            "rows": self.rows,
            "dead_letters": self.dead_letters,
            "batches": self.batches,
            "recent": [asdict(batch) for batch in self.recent],
        }


def query_state(document: Mapping[str, Any]) -> QueryState:
    """Parse the output of `as_json`."""
    state = QueryState(
        document["pipeline"], document["sink"], document["rows"], document["dead_letters"], document["batches"]
    )
    state.recent.extend(Batch(**each) for each in document["recent"])
    return state


def read_progress(text: str) -> Batch:
    """Parse the JSON of Spark's StreamingQueryProgress."""
    progress: dict[str, Any] = json.loads(text)
    sources, operators = progress.get("sources") or [], progress.get("stateOperators") or []
    observed = progress.get("observedMetrics") or {}
    return Batch(
        number=int(progress["batchId"]),
        at=str(progress["timestamp"]),
        rows=_sum(source.get("numInputRows") for source in sources),
        rows_per_second=sum(_number(source.get("processedRowsPerSecond")) for source in sources),
        milliseconds=int(progress.get("durationMs", {}).get("triggerExecution", 0)),
        lag=sum(_lag(source) for source in sources),
        state_rows=_sum(operator.get("numRowsTotal") for operator in operators),
        state_bytes=_sum(operator.get("memoryUsedBytes") for operator in operators),
        watermark=(progress.get("eventTime") or {}).get("watermark"),
        dead_letters=_sum(metrics.get("dead_letters") for metrics in observed.values()),
        worked="addBatch" in progress.get("durationMs", {}),
    )


def lag(latest: Mapping[TopicPartition, int], reached: Mapping[TopicPartition, int]) -> int:
    """Number of offsets between the reached offsets and the ends of the logs."""
    return sum(max(end - reached.get(partition, 0), 0) for partition, end in latest.items())


def _lag(source: Mapping[str, Any]) -> int:
    return lag(_offsets(source.get("latestOffset")), _offsets(source.get("endOffset")))


def _offsets(tree: Any) -> dict[TopicPartition, int]:
    """Spark embeds the offsets of a source as JSON or as a string that contains JSON."""
    if isinstance(tree, str):
        try:
            tree = json.loads(tree)
        except ValueError:
            return {}
    if not isinstance(tree, dict):
        return {}
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, numbers in tree.items()
        for partition, offset in numbers.items()
    }


def _sum(values: Iterable[Any]) -> int:
    return sum(int(_number(value)) for value in values)


def _number(value: Any) -> float:
    """Spark omits unknown values or writes NaN or Infinity as text."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return 0.0
    return number if abs(number) < float("inf") else 0.0
