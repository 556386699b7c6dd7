"""Beyond one process: a Spark standalone cluster of two workers, one of which dies."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.pipeline.session import require_spark
from tests.compat.deadlines import eventually
from tests.spark import topics
from tests.spark.gate import Gate
from tests.spark.query import QueryProcess, Settings
from tests.spark.spark_home import spark_environment
from tests.spark.standalone import StandaloneCluster
from tests.spark.test_faults import (
    BATCH_ROWS,
    HELD_OFFSET,
    HELD_PARTITION,
    PATIENCE,
    assert_exact,
    fill,
    in_the_middle,
    numbers,
)

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1500)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[StandaloneCluster]:
    require_spark(os.environ)
    with StandaloneCluster(tmp_path) as cluster:
        yield cluster


def read_on(master: str, bootstrap: str, topic: str) -> list[tuple[int, int, str, str]]:
    command = [sys.executable, "-m", "tests.spark.places", master, bootstrap, topic]
    done = subprocess.run(command, capture_output=True, timeout=600, check=False, env=spark_environment())
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return [tuple(row) for row in json.loads(done.stdout.splitlines()[-1])]


def worker_of(directory: Path, root: Path) -> str:
    return directory.relative_to(root).parts[0]


def test_tasks_run_on_the_workers_and_survive_them(cluster: StandaloneCluster, bootstrap: str, tmp_path: Path) -> None:
    source, sink = topics.make_topic(bootstrap, 2), topics.make_topic(bootstrap, 2)
    fill(bootstrap, source)
    rows = read_on(cluster.master, bootstrap, source)
    read = {(partition, offset): value.encode() for partition, offset, value, _ in rows}
    assert read == {(row.partition, row.offset): row.value for row in topics.consume(bootstrap, source, 2)}
    assert len(rows) == len(read)
    workers = {worker_of(Path(directory), tmp_path) for *_, directory in rows}
    assert workers == {"worker-0", "worker-1"}

    path = tmp_path / "gate"
    gate = Gate(path, HELD_PARTITION, HELD_OFFSET)
    gate.close()
    settings = Settings(
        bootstrap,
        source,
        sink,
        str(tmp_path / "checkpoint"),
        "exactly-once",
        cluster.master,
        2 * BATCH_ROWS,
        (str(path), HELD_PARTITION, HELD_OFFSET),
    )
    with QueryProcess(settings) as query:
        eventually(lambda: not query.running or in_the_middle(bootstrap, sink), PATIENCE, 0.5)
        assert query.running, query.said()
        cluster.workers[int(worker_of(gate.holder, tmp_path)[-1])].kill()
        gate.open()
        query.finish()
    assert_exact(numbers(bootstrap, sink))
