"""One SparkSession per run, and topics with known content."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_QUIET = {
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """Workers must run the interpreter that has Ottla installed, not the one on the PATH."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    directory: Path = tmp_path_factory.mktemp("spark")
    builder: Any = SparkSession.builder.master("local[2]").appName("ottla-tests")
    for key, value in _QUIET.items():
        builder = builder.config(key, value)
    session = builder.config("spark.sql.warehouse.dir", str(directory / "warehouse")).getOrCreate()
    yield session
    session.stop()
