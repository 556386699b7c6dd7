"""Fixtures of pipelines, and a run inside of the test process."""

import io
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.pipeline.loading import Target
from ottla.pipeline.progress import QueryState
from ottla.pipeline.view import PlainView
from tests.spark.conftest import bootstrap

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["bootstrap"]

Runner = Callable[[Target], list[QueryState]]


@pytest.fixture
def unique() -> Callable[[str], str]:
    """Names that no other test uses, since all share one broker."""
    suffix = uuid.uuid4().hex[:8]
    return lambda name: f"{name}-{suffix}"


@pytest.fixture
def shown() -> io.StringIO:
    """What a run has told."""
    return io.StringIO()


@pytest.fixture
def run_once(spark: "SparkSession", bootstrap: str, tmp_path: Path, shown: io.StringIO) -> Runner:
    """`ottla pipeline run --once`, in the directory of the test."""
    from ottla.pipeline.queries import RunSettings
    from ottla.pipeline.runner import Run
    from ottla.pipeline.session import SessionSettings

    def run(target: Target) -> list[QueryState]:
        settings = RunSettings(bootstrap, tmp_path, once=True)
        return Run(target, settings, SessionSettings("test", tmp_path / "spark.log"), PlainView(shown)).execute(spark)

    return run


def produce(bootstrap_servers: str, topic: str, values: list[bytes | None], **options: Any) -> None:
    """Write values to partition 0, in order."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for value in values:
        producer.produce(topic, value=value, partition=0, **options)
    assert producer.flush(60) == 0
