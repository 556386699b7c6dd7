"""What is kept between runs."""

import json
from pathlib import Path
from typing import Any

import pytest

from ottla.model import TopicPartition
from ottla.pipeline import pipeline, to_console, topics
from ottla.pipeline.checkpoints import Checkpoint, checkpoint_of
from ottla.pipeline.declaration import Pipeline
from ottla.pipeline.failures import PipelineError


def reads(*names: str, checkpoint: str | None = None) -> Pipeline:
    return pipeline(topics(*names), to=to_console(), name="job", checkpoint=checkpoint)(lambda rows: rows)


def test_where_it_is(tmp_path: Path) -> None:
    assert checkpoint_of(reads("a"), "file", tmp_path).location == f"{tmp_path}/checkpoints/file/job"
    assert checkpoint_of(reads("a", checkpoint="here"), "file", tmp_path).location == f"{tmp_path}/here"
    assert checkpoint_of(reads("a", checkpoint="s3://b/c"), "file", tmp_path).local is None


def test_a_checkpoint_belongs_to_its_topics(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path / "job"))
    assert not checkpoint.check(reads("a"))
    checkpoint.declare(reads("a"))
    assert checkpoint.check(reads("a"))
    assert checkpoint.check(reads("a", "b")), "topics may be added"
    with pytest.raises(PipelineError, match=r"belongs to another query: that query reads a, pipeline job reads c"):
        checkpoint.check(reads("c"))


def test_one_process_at_a_time(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path / "job"))
    assert not checkpoint.lock().is_held()
    lock = checkpoint.lock()
    assert lock.acquire()
    assert checkpoint.lock().is_held()
    assert not checkpoint.lock().acquire()
    lock.release()
    assert not checkpoint.lock().is_held()


def write_log(directory: Path, number: int, *sources: Any) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    lines = ["v1", json.dumps({"batchWatermarkMs": 0}), *map(json.dumps, sources)]
    (directory / str(number)).write_text("\n".join(lines))


def test_offsets_are_those_of_the_last_finished_batch(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    assert checkpoint.offsets("sink") == {}
    write_log(tmp_path / "sink/offsets", 9, {"a": {"0": 5, "1": 7}}, {"b": {"0": 1}})
    write_log(tmp_path / "sink/offsets", 10, {"a": {"0": 50, "1": 70}}, {"b": {"0": 10}})
    write_log(tmp_path / "sink/commits", 9)
    (tmp_path / "sink/offsets/.10.crc").write_text("")
    expected = {TopicPartition("a", 0): 5, TopicPartition("a", 1): 7, TopicPartition("b", 0): 1}
    assert checkpoint.offsets("sink") == expected


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "status.json").write_text("{")
    with pytest.raises(PipelineError, match=r"status\.json is damaged"):
        Checkpoint(str(tmp_path)).status()


def test_a_place_only_spark_can_reach_has_no_status() -> None:
    checkpoint = Checkpoint("hdfs://host/job")
    checkpoint.declare(reads("a"))
    assert not checkpoint.check(reads("b"))
    assert checkpoint.status() is None
    assert checkpoint.lock().acquire()
