"""Find and start Spark, with settings for streams of small batches."""

import importlib.util
import logging
import os
import re
import subprocess
import sys
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.pipeline.failures import PipelineError, sentence
from ottla.pipeline.java import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MASTER = "local[*]"
_PACKAGES = ("pyspark", "pyarrow", "pandas", "numpy")

_QUIET = {
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_STREAMS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.metricsEnabled": "false",
    # Enough for a second or two. Reading each update costs a call to the JVM.
    "spark.sql.streaming.numRecentProgressUpdates": "8",
}
_ONE_MACHINE = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Saves 0.1 s per batch compared to the default, which uses more layers to reach the same disk.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}

SHORT_RUN = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -Xss4m"}
"""For runs of a minute or two, which are too short to benefit from Java's second compiler."""


@dataclass(frozen=True, slots=True)
class SessionSettings:
    app_name: str
    log: Path
    """The file for the output of Spark and its workers."""
    master: str = DEFAULT_MASTER
    conf: Mapping[str, str] = field(default_factory=dict)
    """Spark settings of the user. They take precedence."""


def require_spark(environment: MutableMapping[str, str], cache: Path | None = None) -> None:
    """Raise PipelineError unless Spark can start, and set JAVA_HOME and the Python interpreter in the environment."""
    require_packages()
    home = java_home(environment, cache or cache_directory(environment))
    if home is not None:
        environment["JAVA_HOME"] = str(home)
    # Workers must run the interpreter that has Ottla installed, not the first one on the PATH.
    environment.setdefault("PYSPARK_PYTHON", sys.executable)
    environment.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def require_packages() -> None:
    for package in _PACKAGES:
        if importlib.util.find_spec(package) is None:
            how = 'run `pip install ".[spark]"` in the checkout of Ottla'
            raise PipelineError(f"Pipelines need {package}, which is not installed: {how}.")


def start_session(settings: SessionSettings) -> "SparkSession":
    """Raises PipelineError. Takes some seconds.

    Spark's processes get their own session, so that Ctrl-C reaches only this process, which stops them in order.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    # PipelineError reports Spark's exceptions; without this, Spark's loggers would print them too.
    logging.disable(logging.ERROR)
    conf = SparkConf().setAppName(settings.app_name).setMaster(settings.master)
    conf.setAll(list(session_conf(settings).items()))
    try:
        settings.log.parent.mkdir(parents=True, exist_ok=True)
        with settings.log.open("wb") as log:
            apart = {"start_new_session": True, "stdout": log, "stderr": subprocess.STDOUT}
            gateway = launch_gateway(conf, apart)  # type: ignore[no-untyped-call]
        return SparkSession(SparkContext(conf=conf, gateway=gateway))
    except Exception as error:  # Py4J wraps exceptions of the JVM.
        raise PipelineError(_start_failure(settings, error)) from error


def session_conf(settings: SessionSettings) -> dict[str, str]:
    conf = {**_QUIET, **_STREAMS}
    if is_local(settings.master):
        conf |= _ONE_MACHINE
        # Spark's default of 200 is for clusters. Each partition costs a task and a state store in every batch.
        conf["spark.sql.shuffle.partitions"] = str(local_cores(settings.master))
    return {**conf, **settings.conf}


def is_local(master: str) -> bool:
    """Whether driver and executors run in one Java process on this machine."""
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def local_cores(master: str) -> int:
    """The number of concurrent tasks for a master such as local, local[4], local[*] or local[2,3]."""
    inside = master.partition("[")[2].rstrip("]").partition(",")[0].strip()
    if inside.isdecimal():
        return max(1, int(inside))
    return (os.cpu_count() or 1) if inside == "*" else 1


def _start_failure(settings: SessionSettings, error: Exception) -> str:
    reason = sentence(error)
    if "JAVA_GATEWAY_EXITED" in str(error) or "Java gateway process exited" in str(error):
        reason = first_complaint(settings.log) or "its Java process ended"
    return f"Spark did not start with master {settings.master}: {reason}; see {settings.log}."


def first_complaint(log: Path) -> str | None:
    """The error message in the log of a Java process that ended at once."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("Error occurred during initialization"):
            return following.rstrip(".")
        if "Exception" in line or line.startswith("Error"):
            return re.sub(r"^Exception in thread \S+ [\w.$]+: ", "", line).rstrip(".")
    return None


def cache_directory(environment: Mapping[str, str]) -> Path:
    """The directory for files that can be created again."""
    base = environment.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "ottla"
