"""The output of `ottla pipeline describe` and `status`, without starting Spark."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ottla.pipeline.brokers import Cluster
from ottla.pipeline.checkpoints import (
    DEAD_LETTER_DESCRIPTION,
    DEAD_LETTER_SINK,
    DEAD_LETTERS,
    Checkpoint,
    checkpoint_of,
    dead_letter_checkpoint,
)
from ottla.pipeline.declaration import Pipeline
from ottla.pipeline.progress import QueryState, lag, query_state


def describe_pipeline(pipeline: Pipeline, label: str, base: Path) -> dict[str, Any]:
    return {
        "name": pipeline.name,
        "summary": pipeline.summary,
        "sources": [
            {
                "topics": list(source.topics),
                "schema": source.schema if isinstance(source.schema, str | None) else source.schema.simpleString(),
                "watermark": " ".join(source.watermark) if source.watermark else None,
                "starting": source.starting,
                "dead_letters": source.dead_letter_topics,
            }
            for source in pipeline.sources
        ],
        "sinks": [{"description": sink.description, "mode": sink.mode} for sink in pipeline.sinks],
        "checkpoint": checkpoint_of(pipeline, label, base).location,
    }


def pipeline_status(pipeline: Pipeline, label: str, base: Path, cluster: Cluster) -> dict[str, Any]:
    sinks = {sink.name: sink.description for sink in pipeline.sinks}
    return _status(pipeline.name, checkpoint_of(pipeline, label, base), sinks, cluster)


def dead_letter_status(label: str, base: Path, cluster: Cluster) -> dict[str, Any] | None:
    """The status of the dead letter query, which all pipelines of a file share. None if it never ran."""
    checkpoint = dead_letter_checkpoint(label, base)
    if checkpoint.status() is None:
        return None
    return _status(DEAD_LETTERS, checkpoint, {DEAD_LETTER_SINK: DEAD_LETTER_DESCRIPTION}, cluster)


def _status(name: str, checkpoint: Checkpoint, sinks: Mapping[str, str], cluster: Cluster) -> dict[str, Any]:
    """A killed process leaves the state `running` in the file, so the state is `running` only if the lock is held."""
    status = checkpoint.status() or {}
    state = status.get("state", "never run")
    if checkpoint.lock().is_held():
        state = "running"
    elif state == "running":
        state = "died"
    states = {each["sink"]: query_state(each) for each in status.get("queries", ())}
    return {
        "name": name,
        "state": state,
        "reason": status.get("reason") if state == "failed" else None,
        "at": status.get("at"),
        "pid": status.get("pid") if state == "running" else None,
        "checkpoint": checkpoint.location,
        "queries": [
            _query(checkpoint, sink, description, states.get(description), cluster)
            for sink, description in sinks.items()
        ],
    }


def _query(
    checkpoint: Checkpoint, sink: str, description: str, state: QueryState | None, cluster: Cluster
) -> dict[str, Any]:
    reached = checkpoint.offsets(sink)
    behind = lag(cluster.end_offsets(reached), reached) if reached else None
    last = state.last if state else None
    return {
        "sink": description,
        "rows": state.rows if state else None,
        "lag": behind,
        "batch_ms": last.milliseconds if last else None,
        "rows_per_second": last.rows_per_second if last else None,
        "state_rows": last.state_rows if last else None,
        "state_bytes": last.state_bytes if last else None,
        "dead_letters": state.dead_letters if state else None,
        "watermark": last.watermark if last else None,
    }
