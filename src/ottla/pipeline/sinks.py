"""The sinks of a pipeline."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Mode = Literal["append", "update", "complete"]
Delivery = Literal["at-least-once", "exactly-once"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """Base of all sinks. `mode` selects which rows of an aggregate are written. `append`: only final rows."""

    mode: Mode = "append"

    @property
    def name(self) -> str:
        """Identifies the sink within its pipeline, in checkpoints and messages."""
        raise TypeError(f"{type(self).__name__} is not a sink")

    @property
    def description(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSink(Sink):
    topic: str
    key: str | None
    delivery: Delivery
    options: Mapping[str, str]

    @property
    def name(self) -> str:
        return f"topic-{self.topic}"

    @property
    def description(self) -> str:
        return f"topic {self.topic}" + (f", key {self.key}" if self.key else "") + f", {self.delivery}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetSink(Sink):
    path: str
    date: str | None
    partition_by: tuple[str, ...]
    compact_after: int | None

    @property
    def name(self) -> str:
        return "parquet-" + self.path.strip("/").replace("/", "-")

    @property
    def description(self) -> str:
        columns = (("date",) if self.date else ()) + self.partition_by
        by = f" by {', '.join(columns)}" if columns else ""
        return f"parquet in {self.path}{by}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSink(Sink):
    path: str
    key: tuple[str, ...]
    order: str
    deleted: str | None
    buckets: int

    @property
    def name(self) -> str:
        return "table-" + self.path.strip("/").replace("/", "-")

    @property
    def description(self) -> str:
        return f"table in {self.path}, the last row of each {', '.join(self.key)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSink(Sink):
    rows: int

    @property
    def name(self) -> str:
        return "console"


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatSink(Sink):
    format: str
    options: Mapping[str, str]
    partition_by: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.format}-" + self.options.get("path", "").strip("/").replace("/", "-")

    @property
    def description(self) -> str:
        path = self.options.get("path")
        return self.format + (f" in {path}" if path else "")


def to_topic(
    topic: str,
    *,
    key: str | None = None,
    mode: Mode = "append",
    delivery: Delivery = "at-least-once",
    options: Mapping[str, str] | None = None,
) -> Sink:
    """Write records to a topic. Rows become JSON objects, unless they have a column `value`."""
    if delivery == "exactly-once" and mode != "append":
        raise ValueError(f"mode={mode!r} writes at least once; exactly-once requires mode='append'")
    return TopicSink(topic=topic, key=key, mode=mode, delivery=delivery, options=dict(options or {}))


def to_parquet(
    path: str, *, date: str | None = None, partition_by: Sequence[str] = (), compact_after: int | None = None
) -> Sink:
    """Write parquet files, in a directory per day of the timestamp column `date` and per value of other columns.

    Every micro-batch writes its own files, exactly once. With `compact_after`, the files of a directory are merged as
    soon as there are that many.
    """
    if compact_after is not None and compact_after < 2:
        raise ValueError("compact_after must be 2 or more")
    return ParquetSink(path=path, date=date, partition_by=tuple(partition_by), compact_after=compact_after)


def to_table(path: str, *, key: str | Sequence[str], order: str, deleted: str | None = None, buckets: int = 8) -> Sink:
    """Keep the last row of each key, by the column `order`, except rows for which the SQL condition `deleted` holds."""
    keys = (key,) if isinstance(key, str) else tuple(key)
    return TableSink(path=path, key=keys, order=order, deleted=deleted, buckets=buckets)


def to_console(*, rows: int = 20, mode: Mode = "append") -> Sink:
    """Print a few rows of every batch to the terminal."""
    return ConsoleSink(rows=rows, mode=mode)


def to_format(
    format: str,  # noqa: A002 - Spark's name
    *,
    mode: Mode = "append",
    partition_by: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
) -> Sink:
    """Write to any streaming format of Spark, with that format's options."""
    return FormatSink(format=format, mode=mode, partition_by=tuple(partition_by), options=dict(options or {}))
