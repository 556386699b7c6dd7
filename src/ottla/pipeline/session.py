"""Spark inside this process: found, started quietly and set up for streams of small batches."""

import contextlib
import importlib.util
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    "spark.sql.streaming.numRecentProgressUpdates": "100",
}
_ONE_MACHINE = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # A tenth of a second less per batch than the default, which goes through more layers to reach the same disk.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}


@dataclass(frozen=True, slots=True)
class SessionSettings:
    app_name: str
    master: str = DEFAULT_MASTER
    conf: Mapping[str, str] = field(default_factory=dict)
    """Settings of Spark that the person gave; they win."""
    log: Path | None = None
    """Where Spark and its workers write what they have to say."""


def require_spark(environment: MutableMapping[str, str], cache: Path | None = None) -> None:
    """Raise PipelineError unless Spark can start here, and prepare the environment that it starts from."""
    require_packages()
    home = java_home(environment, cache or _cache(environment))
    if home is not None:
        environment["JAVA_HOME"] = str(home)
    # Workers must run the interpreter that has Ottla, not the first on the PATH.
    environment.setdefault("PYSPARK_PYTHON", sys.executable)
    environment.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def require_packages() -> None:
    for package in _PACKAGES:
        if importlib.util.find_spec(package) is None:
            raise PipelineError(f'Pipelines need {package}, which is not installed: pip install "ottla[spark]".')


def start_session(settings: SessionSettings) -> "SparkSession":
    """Raises PipelineError. Takes some seconds."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder.appName(settings.app_name).master(settings.master)
    for key, value in session_conf(settings).items():
        builder = builder.config(key, value)
    with _output_into(settings.log):
        try:
            session: SparkSession = builder.getOrCreate()
        except (PySparkException, OSError, RuntimeError) as error:
            raise PipelineError(_refusal(settings, error)) from error
        except Exception as error:  # Py4J wraps whatever the JVM throws.
            raise PipelineError(_refusal(settings, error)) from error
    return session


def session_conf(settings: SessionSettings) -> dict[str, str]:
    conf = {**_QUIET, **_STREAMS}
    if settings.master.startswith("local"):
        conf |= _ONE_MACHINE
        # Spark's default of 200 is for clusters: each costs a task, and a state store, in every batch.
        conf["spark.sql.shuffle.partitions"] = str(local_cores(settings.master))
    return {**conf, **settings.conf}


def local_cores(master: str) -> int:
    """How many tasks run at once with a master such as local, local[4], local[*] or local[2,3]."""
    inside = master.partition("[")[2].rstrip("]").partition(",")[0].strip()
    if inside.isdecimal():
        return max(1, int(inside))
    return (os.cpu_count() or 1) if inside == "*" else 1


@contextlib.contextmanager
def quiet_log() -> Iterator[Path]:
    """A log for a session that leaves nothing behind."""
    with tempfile.TemporaryDirectory(prefix="ottla-spark-") as directory:
        yield Path(directory) / "spark.log"


def _refusal(settings: SessionSettings, error: Exception) -> str:
    where = f"; {settings.log} says more" if settings.log else ""
    reason = sentence(error)
    if "JAVA_GATEWAY_EXITED" in str(error) or "Java gateway process exited" in str(error):
        reason = _last_complaint(settings.log) or "its Java process ended"
    return f"Spark did not start with master {settings.master}: {reason}{where}."


def _last_complaint(log: Path | None) -> str | None:
    """What a Java process that ended at once wrote: the first line that says so."""
    if log is None or not log.exists():
        return None
    lines = log.read_text(errors="replace").splitlines()
    told = [line.strip() for line in lines if "Exception" in line or line.startswith("Error")]
    return told[0].rstrip(".") if told else None


def _cache(environment: Mapping[str, str]) -> Path:
    base = environment.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "ottla"


@contextlib.contextmanager
def _output_into(log: Path | None) -> Iterator[None]:
    """Have processes that start meanwhile write into a file. Whoever shows something needs a copy of the terminal."""
    if log is None:
        yield
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    kept = [os.dup(1), os.dup(2)]
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        os.dup2(target, 1)
        os.dup2(target, 2)
        yield
    finally:
        for descriptor, original in zip((1, 2), kept, strict=True):
            os.dup2(original, descriptor)
            os.close(original)
        os.close(target)
