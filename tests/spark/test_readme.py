"""The blocks of README.md on Spark, with the records that its other blocks have written."""

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from tests import readme

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SECTION = "Data work on Spark"


def run(program: str, bootstrap: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(program.replace(readme.ADDRESS, bootstrap), "README.md", "exec"), names)
    return names


def test_the_stream_counts_the_clicks_of_the_page(spark: "SparkSession") -> None:
    [producing] = readme.programs("Use it")
    [streaming] = readme.programs(SECTION)
    with ottla.embedded() as broker:
        run(producing, broker.bootstrap_servers)
        query = run(streaming, broker.bootstrap_servers)["query"]
        try:
            query.processAllAvailable()
            assert sum(progress["numInputRows"] for progress in query.recentProgress) == 2
        finally:
            query.stop()


def test_the_query_counts_the_clicks_of_the_page() -> None:
    [producing] = readme.programs("Use it")
    [command] = readme.commands(SECTION)
    assert command.text.startswith("ottla sql ")
    with ottla.embedded() as broker:
        run(producing, broker.bootstrap_servers)
        done = subprocess.run(
            command.text.replace("ottla", f"{sys.executable} -m ottla", 1),
            shell=True,
            env={**os.environ, "OTTLA_BOOTSTRAP_SERVER": broker.bootstrap_servers},
            capture_output=True,
            text=True,
            timeout=300,
        )
    assert done.returncode == 0, done.stderr
    assert [line.split() for line in done.stdout.splitlines() if "index" in line] == [["/index.html", "2"]]
