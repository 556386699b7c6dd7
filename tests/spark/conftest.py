"""One SparkSession per run, on one worker: starting it takes longer than most tests.

`OTTLA_SPARK_JARS=DIR` gives it the jars of Spark's own Kafka connector, which is then compared with Ottla's.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.pipeline.session import SHORT_RUN, require_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.testing.embedded import EmbeddedBroker

EXTERNAL_BROKER = os.environ.get("OTTLA_COMPAT_BOOTSTRAP")
CONNECTOR_JARS = os.environ.get("OTTLA_SPARK_JARS")

CONFIG = {
    **SHORT_RUN,
    "spark.log.level": "OFF",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    require_spark(os.environ)
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder
    builder = builder.master("local[2,4]").appName("ottla-tests")
    for key, value in CONFIG.items():
        builder = builder.config(key, value)
    if CONNECTOR_JARS:
        builder = builder.config("spark.jars", ",".join(map(str, sorted(Path(CONNECTOR_JARS).glob("*.jar")))))
    session = builder.config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse"))).getOrCreate()
    yield session
    session.stop()


@pytest.fixture
def bootstrap(request: pytest.FixtureRequest) -> str:
    """`OTTLA_COMPAT_BOOTSTRAP=host:port` has these tests run against Apache Kafka instead."""
    if EXTERNAL_BROKER:
        return EXTERNAL_BROKER
    broker: EmbeddedBroker = request.getfixturevalue("ottla_broker")
    return broker.bootstrap_servers
