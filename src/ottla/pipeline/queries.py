"""Start the queries of a run: one per sink, and one for all dead letters."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from ottla.pipeline.checkpoints import (
    DEAD_LETTER_DESCRIPTION,
    DEAD_LETTER_SINK,
    DEAD_LETTERS,
    checkpoint_of,
    dead_letter_checkpoint,
)
from ottla.pipeline.declaration import Pipeline, Source, unique_sources
from ottla.pipeline.failures import NO_WORKER, PipelineError, sentence
from ottla.pipeline.loading import Target
from ottla.pipeline.parsing import dead_letters, parsed, value_schema
from ottla.pipeline.writing import Output, start_sink

ROWS_PER_BATCH = "1000000"
"""Default of maxOffsetsPerTrigger: the maximum number of offsets in one batch."""

_INITIALIZING = "Initializing sources"
"""Spark's status message of a query that waits for its sources."""
_SETTLE_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class RunSettings:
    bootstrap_server: str
    base: Path
    """The directory that relative paths start from."""
    trigger: str = "1 second"
    once: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    pipeline: str
    sink: str
    spark: StreamingQuery


def start_queries(
    spark: SparkSession, target: Target, settings: RunSettings, echo: Callable[[str], None], checked: Collection[str]
) -> Iterator[Query]:
    """Start one query after the other. Raises PipelineError; the caller stops the queries already started.

    `checked` are the topics whose dead letters this run collects.
    """
    builder = _Builder(spark, target, settings, echo)
    try:
        for pipeline in target.pipelines:
            yield from builder.start(pipeline)
        if checked:
            yield builder.start_dead_letters(checked)
    except PySparkException as error:
        raise PipelineError(f"The queries cannot start: {sentence(error)}.") from error


def topics_with_dead_letters(target: Target) -> list[str]:
    sources = unique_sources(target.everything)
    return sorted({topic for source in sources for topic in source.topics if source.dead_letter_topic(topic)})


class _Builder:
    def __init__(self, spark: SparkSession, target: Target, settings: RunSettings, echo: Callable[[str], None]) -> None:
        self._spark = spark
        self._target = target
        self._settings = settings
        self._echo = echo

    def start(self, pipeline: Pipeline) -> Iterator[Query]:
        """Start one query per sink. Only the query of the first sink commits offsets to the consumer group."""
        checkpoint = checkpoint_of(pipeline, self._target.label, self._settings.base)
        group = f"{self._target.label}.{pipeline.name}"
        for number, sink in enumerate(pipeline.sinks):
            frame = self._apply(pipeline, {"groupId": group} if number == 0 else {})
            output = self._output(f"{group}.{sink.name}", checkpoint.of_sink(sink.name))
            try:
                query = settled(partial(start_sink, frame, sink, output))
            except Exception as error:
                raise _cannot_start(pipeline, error) from error
            yield Query(pipeline.name, sink.description, query)

    def start_dead_letters(self, names: Collection[str]) -> Query:
        """Start one query for the whole file, so that it reads the topics only one more time."""
        pipelines = self._target.everything
        sources = [source for source in unique_sources(pipelines) if source.dead_letter_topics]
        schemas = {id(source): value_schema(self._spark, source) for source in unique_sources(pipelines)}
        starting = "earliest" if any(source.starting == "earliest" for source in sources) else "latest"
        records = self._records(names, starting, {})
        frame = _counted(dead_letters(records, pipelines, schemas))
        checkpoint = dead_letter_checkpoint(self._target.label, self._settings.base)
        output = self._output(f"{self._target.label}.{DEAD_LETTERS}", checkpoint.of_sink(DEAD_LETTER_SINK))
        writer = output.configure(frame.writeStream.outputMode("append").format("ottla"))
        query = settled(writer.option("kafka.bootstrap.servers", self._settings.bootstrap_server).start)
        return Query(DEAD_LETTERS, DEAD_LETTER_DESCRIPTION, query)

    def _apply(self, pipeline: Pipeline, options: Mapping[str, str]) -> DataFrame:
        frames = []
        for source in pipeline.sources:
            schema = value_schema(self._spark, source)
            frames.append(self._rows(pipeline, source, schema, options))
        try:
            result: Any = pipeline.function(*frames)
        except Exception as error:
            raise _cannot_start(pipeline, error) from error
        if not hasattr(result, "writeStream"):
            kind = type(result).__name__
            raise PipelineError(f"Pipeline {pipeline.name} must return a DataFrame, but returned {kind}.")
        frame: DataFrame = result
        return frame

    def _rows(
        self, pipeline: Pipeline, source: Source, schema: StructType | None, options: Mapping[str, str]
    ) -> DataFrame:
        records = self._records(source.topics, source.starting, {**options, **source.options})
        rows = parsed(records, schema)
        if source.watermark is None:
            return rows
        column, delay = source.watermark
        try:
            return rows.withWatermark(column, delay)
        except Exception as error:
            raise _cannot_start(pipeline, error) from error

    def _records(self, topics: Any, starting: str, options: Mapping[str, str]) -> DataFrame:
        chosen = {
            "kafka.bootstrap.servers": self._settings.bootstrap_server,
            "subscribe": ",".join(topics),
            "startingOffsets": starting,
            "maxOffsetsPerTrigger": ROWS_PER_BATCH,
            **options,
        }
        return self._spark.readStream.format("ottla").options(**chosen).load()

    def _output(self, name: str, checkpoint: str) -> Output:
        settings = self._settings
        trigger: dict[str, Any] = {"availableNow": True} if settings.once else {"processingTime": settings.trigger}
        return Output(name, checkpoint, trigger, settings.bootstrap_server, settings.base, self._echo)


def settled(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Start a query and wait until its sources are initialized. Each source is a separate process.

    Spark fails the query if a process does not start within ten seconds, which happens on a busy machine. In this case
    the query is started again. It has not read anything yet.
    """
    deadline = time.monotonic() + _SETTLE_SECONDS
    while True:
        query = start()
        while query.isActive and query.status["message"] == _INITIALIZING and time.monotonic() < deadline:
            time.sleep(0.05)
        error = query.exception()
        if error is None or NO_WORKER not in str(error) or time.monotonic() > deadline:
            return query


def _counted(frame: DataFrame) -> DataFrame:
    return frame.observe(DEAD_LETTERS, F.count(F.lit(1)).alias("dead_letters"))


def _cannot_start(pipeline: Pipeline, error: BaseException) -> PipelineError:
    return PipelineError(f"Pipeline {pipeline.name} cannot start: {sentence(error)}.")
