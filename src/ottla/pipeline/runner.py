"""A run: check the preconditions, start Spark, watch the queries, and stop cleanly."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

from ottla.pipeline.brokers import Cluster
from ottla.pipeline.checkpoints import (
    ROOT,
    Checkpoint,
    Lock,
    checkpoint_of,
    dead_letter_checkpoint,
    resolve,
)
from ottla.pipeline.declaration import Pipeline, unique_sources
from ottla.pipeline.failures import PipelineError, sentence
from ottla.pipeline.loading import Target
from ottla.pipeline.progress import QueryState, read_progress
from ottla.pipeline.queries import Query, RunSettings, start_queries, topics_with_dead_letters
from ottla.pipeline.session import SessionSettings, require_spark, start_session
from ottla.pipeline.sinks import TopicSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POLL_SECONDS = 0.25
_STATUS_SECONDS = 2.0
_STOP_SECONDS = 30.0
"""How long a stop waits for the current batches."""


class Observer(Protocol):
    """Shows a run to the user."""

    def waiting(self, for_what: str) -> AbstractContextManager[None]: ...

    def say(self, text: str) -> None: ...

    def watching(self) -> AbstractContextManager[None]: ...

    def show(self, states: list[QueryState], fresh: list[QueryState]) -> None: ...


@dataclass(slots=True)
class _Watched:
    query: Query
    state: QueryState
    checkpoint: Checkpoint
    seen: tuple[int, str] = (-1, "")


@dataclass(slots=True)
class Run:
    """One `ottla pipeline run`."""

    target: Target
    settings: RunSettings
    session: SessionSettings
    observer: Observer
    limit: float | None = None
    """The run stops after this many seconds."""
    warm_up: bool = False
    """Whether `limit` counts from the first batch of every query, because first batches are slow on small machines."""
    stopping: threading.Event = field(default_factory=threading.Event)
    _stop_now: threading.Event = field(default_factory=threading.Event)
    _watched: list[_Watched] = field(default_factory=list)
    _status_at: float = 0.0

    def execute(self, spark: "SparkSession | None" = None) -> list[QueryState]:
        """Run until all queries finish or the user stops the run. Raises PipelineError if a query fails.

        Without the caller's session, this method starts one and stops it at the end.
        """
        with ExitStack() as stack:
            if spark is None:
                require_spark(os.environ)
            checked = self._prepare(stack)
            if spark is None:
                with self.observer.waiting("Starting Spark"):
                    spark = start_session(self.session)
                stack.callback(spark.stop)
            stack.enter_context(self._signals())
            stack.callback(self._stop_at_once)
            try:
                self._start(spark, checked)
                self._follow()
            except PipelineError as error:
                self._remember(error)
                raise
        return [watched.state for watched in self._watched]

    def _start(self, spark: "SparkSession", checked: list[str]) -> None:
        with self.observer.waiting("Starting queries"):
            for query in start_queries(spark, self.target, self.settings, self.observer.say, checked):
                self._watched.append(self._watch(query))
                if self.stopping.is_set():
                    return
        for pipeline in self.target.pipelines:
            self._checkpoint(pipeline).declare(pipeline)

    def _prepare(self, stack: ExitStack) -> list[str]:
        """Make all checks that need no Spark. Returns the topics whose dead letters this run collects."""
        cluster = Cluster(self.settings.bootstrap_server)
        cluster.require_topics(topic for pipeline in self.target.pipelines for topic in pipeline.topics)
        for pipeline in self.target.pipelines:
            checkpoint = self._checkpoint(pipeline)
            if not self._claim(checkpoint.lock(), stack):
                status = checkpoint.status() or {}
                raise PipelineError(f"Pipeline {pipeline.name} is already running, as process {status.get('pid')}.")
            verb = "continues from checkpoint" if checkpoint.check(pipeline) else "starts with new checkpoint"
            self.observer.say(f"Pipeline {pipeline.name} {verb} {checkpoint.location}")
        created = cluster.create_topics(_written_topics(self.target))
        if created:
            self.observer.say(f"Created topics {', '.join(created)}")
        # Other pipelines of the file may read topics that do not exist yet.
        checked = cluster.existing_topics(topics_with_dead_letters(self.target))
        mine = checked and self._claim(dead_letter_checkpoint(self.target.label, self.settings.base).lock(), stack)
        return checked if mine else []

    def _checkpoint(self, pipeline: Pipeline) -> Checkpoint:
        return checkpoint_of(pipeline, self.target.label, self.settings.base)

    def _remember(self, error: PipelineError) -> None:
        """Store the failure for `ottla pipeline status`."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        outcome = {"state": "failed", "reason": str(error), "pid": os.getpid(), "at": now}
        for pipeline in self.target.pipelines:
            checkpoint = self._checkpoint(pipeline)
            checkpoint.write_status({"queries": [], **(checkpoint.status() or {}), **outcome})

    @staticmethod
    def _claim(lock: Lock, stack: ExitStack) -> bool:
        if not lock.acquire():
            return False
        stack.callback(lock.release)
        return True

    def _watch(self, query: Query) -> _Watched:
        found = [each for each in self.target.pipelines if each.name == query.pipeline]
        base, label = self.settings.base, self.target.label
        checkpoint = self._checkpoint(found[0]) if found else dead_letter_checkpoint(label, base)
        return _Watched(query, QueryState(query.pipeline, query.sink), checkpoint)

    def _follow(self) -> None:
        """Watch the queries until the end, then write the final status."""
        started = time.monotonic()
        outcome = {"state": "failed"}
        try:
            with self.observer.watching():
                while not self.stopping.wait(_POLL_SECONDS):
                    self._look({"state": "running"})
                    if not any(watched.query.spark.isActive for watched in self._watched):
                        break
                    if self.warm_up and not all(watched.state.batches for watched in self._watched):
                        started = time.monotonic()
                    if self.limit is not None and time.monotonic() - started > self.limit:
                        self.stopping.set()
                if self.stopping.is_set():
                    self._stop_gently()
                self._look({"state": "running"})
            outcome = {"state": "stopped" if self.stopping.is_set() else "finished"}
        finally:
            self._write_status(outcome)

    def _look(self, status: Mapping[str, Any]) -> None:
        """Read new progress, show it, and raise PipelineError if a query has failed."""
        fresh = [watched.state for watched in self._watched if _take_in(watched)]
        self.observer.show([watched.state for watched in self._watched], fresh)
        if time.monotonic() - self._status_at > _STATUS_SECONDS:
            self._write_status(status)
        for watched in self._watched:
            error = watched.query.spark.exception()
            if error is not None:
                raise PipelineError(f"Pipeline {watched.query.pipeline} failed: {sentence(error)}.")

    def _write_status(self, status: Mapping[str, Any]) -> None:
        self._status_at = time.monotonic()
        by_place: dict[str, list[_Watched]] = {}
        for watched in self._watched:
            by_place.setdefault(watched.checkpoint.location, []).append(watched)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        for group in by_place.values():
            queries = [watched.state.as_json() for watched in group]
            group[0].checkpoint.write_status({**status, "pid": os.getpid(), "at": now, "queries": queries})

    def _stop_gently(self) -> None:
        """Let the current batches finish, so that they need no replay. A second Ctrl-C does not wait."""
        deadline = time.monotonic() + _STOP_SECONDS
        waiting = {id(watched): watched.seen for watched in self._watched}
        remaining = list(self._watched)
        while remaining and time.monotonic() < deadline and not self._stop_now.wait(0.05):
            for watched in list(remaining):
                query = watched.query.spark
                _take_in(watched)
                idle = not query.isActive or not query.status["isTriggerActive"]
                if idle or watched.seen != waiting[id(watched)]:
                    query.stop()
                    remaining.remove(watched)

    def _stop_at_once(self) -> None:
        for watched in self._watched:
            with contextlib.suppress(Exception):
                watched.query.spark.stop()

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Replace Spark's signal handler, which would cancel the current batch."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._interrupted) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _interrupted(self, _number: int, _frame: FrameType | None) -> None:
        if self.stopping.is_set():
            self._stop_now.set()
        self.stopping.set()


def spark_log(target: Target, base: Path) -> Path:
    return Path(resolve(f"{ROOT}/{target.label}/spark.log", base))


def _take_in(watched: _Watched) -> bool:
    """Read new batches and return whether there are any. The common case, no new batch, must be cheap."""
    last = watched.query.spark.lastProgress
    if last is None or (last.batchId, last.timestamp) == watched.seen:
        return False
    news = False
    for progress in watched.query.spark.recentProgress:
        batch = read_progress(progress.json)
        if (batch.number, batch.at) > watched.seen:
            watched.seen = (batch.number, batch.at)
            watched.state.add(batch)
            news = True
    return news


def _written_topics(target: Target) -> list[str]:
    names = [sink.topic for each in target.pipelines for sink in each.sinks if isinstance(sink, TopicSink)]
    for source in unique_sources(target.everything):
        names += source.dead_letter_topics
    return names
