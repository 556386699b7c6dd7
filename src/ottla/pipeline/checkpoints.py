"""The files that a pipeline keeps between runs: Spark's checkpoints, one per query, and the status and lock of the run.

<directory of the pipeline>/
    pipeline.json       the declaration for which the checkpoints were created
    status.json         the last run: its process, its state, its last batches
    lock                held by the process that runs the pipeline
    <sink>/             Spark's checkpoint of the query that feeds this sink
"""

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ottla.model import TopicPartition
from ottla.pipeline.declaration import Pipeline
from ottla.pipeline.failures import PipelineError

ROOT = "checkpoints"
DEAD_LETTERS = "dead-letters"
DEAD_LETTER_SINK = "topics"
DEAD_LETTER_DESCRIPTION = "values that do not match their schema"
_DECLARATION = "pipeline.json"
_STATUS = "status.json"
_LOCK = "lock"


def resolve(path: str, base: Path) -> str:
    """Make a declared path absolute. A path with a scheme, such as hdfs://, stays unchanged."""
    return path if "://" in path else str((base / path).absolute())


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The directory of one pipeline. A remote directory, which only Spark can access, has no status and no lock."""

    location: str

    @property
    def local(self) -> Path | None:
        if self.location.startswith("file://"):
            return Path(self.location.removeprefix("file://"))
        return None if "://" in self.location else Path(self.location)

    def of_sink(self, sink: str) -> str:
        return f"{self.location}/{sink}"

    def check(self, pipeline: Pipeline) -> bool:
        """Whether a checkpoint exists. Raises PipelineError if it belongs to another query."""
        known = self._read(_DECLARATION)
        if known is None:
            return False
        before, now = known["topics"], _topics(pipeline)
        fits = len(before) == len(now) and all(set(old) <= set(new) for old, new in zip(before, now, strict=False))
        if not fits:
            raise PipelineError(
                f"The checkpoint {self.location} belongs to another query: that query reads {_words(before)}, pipeline "
                f"{pipeline.name} reads {_words(now)}; give the pipeline another checkpoint, or delete this one."
            )
        return True

    def declare(self, pipeline: Pipeline) -> None:
        sinks = {sink.name: sink.description for sink in pipeline.sinks}
        self._write(_DECLARATION, {"name": pipeline.name, "topics": _topics(pipeline), "sinks": sinks})

    def lock(self) -> "Lock":
        return Lock(None if self.local is None else self.local / _LOCK)

    def status(self) -> dict[str, Any] | None:
        return self._read(_STATUS)

    def write_status(self, status: Mapping[str, Any]) -> None:
        self._write(_STATUS, status)

    def offsets(self, sink: str) -> dict[TopicPartition, int]:
        """The end offsets of the last finished batch of a sink's query, from Spark's checkpoint files."""
        if self.local is None:
            return {}
        directory = self.local / sink
        done = _numbers(directory / "commits")
        for number in sorted(_numbers(directory / "offsets"), reverse=True):
            if number in done:
                return _read_offsets(directory / "offsets" / str(number))
        return {}

    def _read(self, name: str) -> dict[str, Any] | None:
        if self.local is None or not (self.local / name).exists():
            return None
        try:
            document: dict[str, Any] = json.loads((self.local / name).read_text())
        except ValueError as error:
            raise PipelineError(
                f"{self.local / name} is damaged: {error}; delete it to continue without it."
            ) from error
        return document

    def _write(self, name: str, document: Mapping[str, Any]) -> None:
        if self.local is None:
            return
        self.local.mkdir(parents=True, exist_ok=True)
        draft = self.local / f".{name}"
        draft.write_text(json.dumps(document, indent=2))
        draft.replace(self.local / name)


def checkpoint_of(pipeline: Pipeline, label: str, base: Path) -> Checkpoint:
    return Checkpoint(resolve(pipeline.checkpoint or f"{ROOT}/{label}/{pipeline.name}", base))


def dead_letter_checkpoint(label: str, base: Path) -> Checkpoint:
    """The checkpoint of the dead letter query, which all pipelines of a file share."""
    return Checkpoint(resolve(f"{ROOT}/{label}/{DEAD_LETTERS}", base))


class Lock:
    """Prevents two concurrent runs of one query, which would corrupt its checkpoint. The kernel releases the lock when
    the process ends."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._descriptor: int | None = None

    def acquire(self) -> bool:
        """Try to take the lock. Returns whether this process holds it now."""
        if self._path is None:
            return True
        self._path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def is_held(self) -> bool:
        """Whether any process holds the lock."""
        if self._path is None or not self._path.exists():
            return False
        probe = Lock(self._path)
        free = probe.acquire()
        probe.release()
        return not free


def _topics(pipeline: Pipeline) -> list[list[str]]:
    return [sorted(source.topics) for source in pipeline.sources]


def _words(sources: list[list[str]]) -> str:
    return " and ".join(", ".join(topics) for topics in sources)


def _numbers(directory: Path) -> set[int]:
    return {int(each.name) for each in directory.iterdir() if each.name.isdecimal()} if directory.is_dir() else set()


def _read_offsets(path: Path) -> dict[TopicPartition, int]:
    """Parse a file of Spark's offset log: a version, a line of metadata, then one line of offsets per source."""
    offsets: dict[TopicPartition, int] = {}
    for line in path.read_text().splitlines()[2:]:
        tree = json.loads(line) if line.startswith("{") else {}
        for topic, numbers in tree.items():
            offsets |= {TopicPartition(topic, int(partition)): offset for partition, offset in numbers.items()}
    return offsets
