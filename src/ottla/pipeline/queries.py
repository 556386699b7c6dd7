"""From declarations to running queries: one per sink, and one for the dead letters of all."""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
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
from ottla.pipeline.declaration import Pipeline, Source
from ottla.pipeline.failures import PipelineError, sentence
from ottla.pipeline.loading import Target
from ottla.pipeline.parsing import dead_letters, parsed, unique_sources, value_schema
from ottla.pipeline.writing import Output, start_sink

ROWS_PER_BATCH = "1000000"
"""How much of a backlog one batch takes, unless a source says otherwise."""

_INITIALIZING = "Initializing sources"
"""What Spark calls it when a query waits for them."""
_SETTLE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class RunSettings:
    bootstrap_server: str
    base: Path
    """What relative paths start from."""
    trigger: str = "1 second"
    once: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    pipeline: str
    sink: str
    spark: StreamingQuery


def start_queries(
    spark: SparkSession, target: Target, settings: RunSettings, echo: Callable[[str], None], checked: Collection[str]
) -> list[Query]:
    """Start everything, or nothing: what was started is stopped when something cannot be. Raises PipelineError.

    `checked` are the topics whose dead letters this run is to find.
    """
    started: list[Query] = []
    builder = _Builder(spark, target, settings, echo)
    try:
        for pipeline in target.pipelines:
            started += builder.start(pipeline)
        if checked:
            started += builder.start_dead_letters(checked)
    except BaseException as error:
        for query in started:
            query.spark.stop()
        if isinstance(error, PySparkException):
            raise PipelineError(f"The queries cannot start: {sentence(error)}.") from error
        raise
    return started


def topics_with_dead_letters(target: Target) -> list[str]:
    sources = unique_sources(target.everything)
    return sorted({topic for source in sources for topic in source.topics if source.dead_letter_topic(topic)})


class _Builder:
    def __init__(self, spark: SparkSession, target: Target, settings: RunSettings, echo: Callable[[str], None]) -> None:
        self._spark = spark
        self._target = target
        self._settings = settings
        self._echo = echo

    def start(self, pipeline: Pipeline) -> list[Query]:
        """The group, whose lag every Kafka tool shows, follows the first sink."""
        checkpoint = checkpoint_of(pipeline, self._target.label, self._settings.base)
        group = f"{self._target.label}.{pipeline.name}"
        queries = []
        for number, sink in enumerate(pipeline.sinks):
            frame = self._apply(pipeline, {"groupId": group} if number == 0 else {})
            output = self._output(f"{group}.{sink.name}", checkpoint.of_sink(sink.name))
            try:
                query = start_sink(frame, sink, output)
            except Exception as error:
                raise _refused(pipeline, error) from error
            _settle(query)
            queries.append(Query(pipeline.name, sink.description, query))
        return queries

    def start_dead_letters(self, names: Collection[str]) -> list[Query]:
        """One query for the whole file, so that the topics are read only once more."""
        pipelines = self._target.everything
        sources = [source for source in unique_sources(pipelines) if source.dead_letter_topics]
        schemas = {id(source): value_schema(self._spark, source) for source in unique_sources(pipelines)}
        starting = "earliest" if any(source.starting == "earliest" for source in sources) else "latest"
        records = self._records(names, starting, {})
        frame = _counted(dead_letters(records, pipelines, schemas))
        checkpoint = dead_letter_checkpoint(self._target.label, self._settings.base)
        output = self._output(f"{self._target.label}.{DEAD_LETTERS}", checkpoint.of_sink(DEAD_LETTER_SINK))
        writer = output.configure(frame.writeStream.outputMode("append").format("ottla"))
        query = writer.option("kafka.bootstrap.servers", self._settings.bootstrap_server).start()
        return [Query(DEAD_LETTERS, DEAD_LETTER_DESCRIPTION, query)]

    def _apply(self, pipeline: Pipeline, options: Mapping[str, str]) -> DataFrame:
        frames = []
        for source in pipeline.sources:
            schema = value_schema(self._spark, source)
            frames.append(self._rows(pipeline, source, schema, options))
        try:
            result: Any = pipeline.function(*frames)
        except Exception as error:
            raise _refused(pipeline, error) from error
        if not hasattr(result, "writeStream"):
            kind = type(result).__name__
            raise PipelineError(f"Pipeline {pipeline.name} must return a DataFrame, and returned {kind}.")
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
            raise _refused(pipeline, error) from error

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


def _settle(query: StreamingQuery) -> None:
    """Wait until a query has its sources, each of which is a process of its own: Spark gives up on one that does not
    start within ten seconds, which happens when many start at once on a small machine."""
    deadline = time.monotonic() + _SETTLE_SECONDS
    while query.isActive and query.status["message"] == _INITIALIZING and time.monotonic() < deadline:
        time.sleep(0.05)


def _counted(frame: DataFrame) -> DataFrame:

    return frame.observe(DEAD_LETTERS, F.count(F.lit(1)).alias("dead_letters"))


def _refused(pipeline: Pipeline, error: BaseException) -> PipelineError:
    return PipelineError(f"Pipeline {pipeline.name} cannot start: {sentence(error)}.")
