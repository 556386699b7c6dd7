"""The declarations of a pipeline file."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ottla.pipeline.sinks import Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

DEAD_LETTER_SUFFIX = ".dlq"
_NAME = re.compile(r"[A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class Source:
    """Topics whose values have one schema."""

    topics: tuple[str, ...]
    schema: "str | StructType | None"
    watermark: tuple[str, str] | None
    starting: Literal["earliest", "latest"]
    dead_letters: bool | str
    options: Mapping[str, str]

    def dead_letter_topic(self, topic: str) -> str | None:
        """The dead letter topic for values of `topic` that do not match the schema."""
        if self.schema is None or self.dead_letters is False:
            return None
        return self.dead_letters if isinstance(self.dead_letters, str) else topic + DEAD_LETTER_SUFFIX

    @property
    def dead_letter_topics(self) -> list[str]:
        return [name for topic in self.topics if (name := self.dead_letter_topic(topic)) is not None]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A function with its sources and sinks. It can be called like the plain function, for example in tests."""

    name: str
    function: "Callable[..., DataFrame]"
    sources: tuple[Source, ...]
    sinks: tuple[Sink, ...]
    checkpoint: str | None = None

    def __call__(self, *frames: "DataFrame") -> "DataFrame":
        return self.function(*frames)

    @property
    def summary(self) -> str:
        """The first sentence of the function's docstring."""
        return (inspect.getdoc(self.function) or "").split("\n\n")[0].replace("\n", " ")

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(topic for source in self.sources for topic in source.topics))


def topics(
    *names: str,
    schema: "str | StructType | None" = None,
    watermark: tuple[str, str] | None = None,
    starting: Literal["earliest", "latest"] = "earliest",
    dead_letters: bool | str = True,
    options: Mapping[str, str] | None = None,
) -> Source:
    """Declare topics as a source.

    With a schema in SQL, such as `user string not null, at timestamp`, values are JSON objects. The fields are columns
    of the DataFrame. One more column, `record`, has key, topic, partition, offset and timestamp. Without a schema, the
    columns are `value`, as bytes, and `record`. `starting` applies to the first run only; later runs continue from the
    checkpoint. `options` are those of the source `ottla`.
    """
    if not names:
        raise ValueError("topics() needs the name of at least one topic")
    if watermark is not None and (not isinstance(watermark, tuple) or len(watermark) != 2):
        raise ValueError('watermark must be a column and a delay, such as ("at", "1 minute")')
    return Source(tuple(names), schema, watermark, starting, dead_letters, dict(options or {}))


def pipeline(
    *sources: Source, to: Sink | Sequence[Sink], name: str | None = None, checkpoint: str | None = None
) -> Callable[[Any], Pipeline]:
    """Declare a function as a pipeline. It takes one DataFrame per source and returns one DataFrame."""
    sinks = (to,) if isinstance(to, Sink) else tuple(to)

    def declare(function: "Callable[..., DataFrame]") -> Pipeline:
        chosen = name or function.__name__
        _check(chosen, function, sources, sinks)
        return Pipeline(chosen, function, sources, sinks, checkpoint)

    return declare


def unique_sources(pipelines: Sequence[Pipeline]) -> list[Source]:
    """The sources of all pipelines. A source that several pipelines read appears once."""
    return list({id(source): source for each in pipelines for source in each.sources}.values())


def _check(name: str, function: Callable[..., Any], sources: Sequence[Source], sinks: Sequence[Sink]) -> None:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a valid pipeline name; use letters, digits, '_', '.' and '-'")
    if not sources or not all(isinstance(source, Source) for source in sources):
        raise ValueError(f"pipeline {name} needs sources, made with topics(...)")
    if not sinks or not all(isinstance(sink, Sink) for sink in sinks):
        raise ValueError(f"pipeline {name} needs sinks, made with to_topic(...), to_parquet(...) and so on")
    names = [sink.name for sink in sinks]
    if len(set(names)) < len(names):
        raise ValueError(f"pipeline {name} has two sinks that write to the same place")
    wanted = len(inspect.signature(function).parameters)
    if wanted != len(sources):
        raise ValueError(f"pipeline {name} takes {wanted} DataFrames, but has {len(sources)} sources")
