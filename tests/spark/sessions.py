"""A pytest plugin with the `spark` fixture: all tests of a run share a SparkSession, because it takes seconds to start.

`OTTLA_SPARK_JARS=DIR` gives the session the jars of Spark's own Kafka connector, which is then compared with Ottla's.
"""

import logging
import os
import subprocess
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.pipeline.session import SHORT_RUN, require_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
TIME_LIMIT = 600
"""For a test that may have to start a JVM, on a machine that is slow and busy. In seconds."""
ANSWER_TIMEOUT = 15.0
"""A JVM that does not answer a trivial call for this long is replaced."""
EXIT_TIMEOUT = 30.0

_log = logging.getLogger(__name__)


@pytest.hookimpl(tryfirst=True)  # Before pytest selects by marker.
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that use Spark in the process of pytest, and run them last: `python -m tests` runs them alone."""
    for item in items:
        if "spark_sessions" in getattr(item, "fixturenames", ()):
            item.add_marker("spark_session")
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(TIME_LIMIT))
    items.sort(key=lambda item: item.get_closest_marker("spark_session") is not None)


class SparkSessions:
    """The current session, and a new one in place of a broken one.

    A test can break the session: its JVM may be killed, or the time limit may interrupt the test while it waits for a
    reply of the JVM, which the next call would then take for its own.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._gateway: Any = None
        self._session: SparkSession | None = None

    def usable(self) -> "SparkSession":
        if self._session is not None and self._answers(self._session):
            return self._session
        self.discard()
        self._session = self._start()
        return self._session

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        """The JVM of the current session."""
        process: subprocess.Popen[bytes] = self._gateway.proc
        return process

    def discard(self) -> None:
        """End the JVM and make pyspark forget it, whatever state both are in."""
        from pyspark import SparkContext
        from pyspark.sql import SparkSession, SQLContext

        if self._gateway is not None:
            _end(self.process)
            self._gateway.shutdown_callback_server()
        context = SparkContext._active_spark_context
        if context is not None:
            context._jsc = None  # There is no JVM to stop.
            context.stop()
        SparkContext._gateway = SparkContext._jvm = None
        SparkSession._instantiatedSession = SparkSession._activeSession = None
        SQLContext._instantiatedContext = None
        self._gateway = self._session = None

    def _start(self) -> "SparkSession":
        require_spark(os.environ)
        from pyspark import SparkConf, SparkContext, java_gateway
        from pyspark.sql import SparkSession

        conf = SparkConf().setMaster("local[2,4]").setAppName("ottla-tests").setAll(list(CONFIG.items()))
        conf.set("spark.local.dir", str(self._directory / "local"))
        conf.set("spark.sql.warehouse.dir", str(self._directory / "warehouse"))
        if CONNECTOR_JARS:
            conf.set("spark.jars", ",".join(map(str, sorted(Path(CONNECTOR_JARS).glob("*.jar")))))
        launch: Any = java_gateway.launch_gateway
        self._gateway = launch(conf)
        return SparkSession(SparkContext(conf=conf, gateway=self._gateway))

    def _answers(self, session: "SparkSession") -> bool:
        """Whether the JVM gives the right answer to a call. Stops queries that an earlier test has left running."""
        if self.process.poll() is not None:
            return False
        overdue = threading.Timer(ANSWER_TIMEOUT, self.process.kill)
        overdue.daemon = True
        overdue.start()
        try:
            context: Any = session.sparkContext
            token = uuid.uuid4().hex
            if context._jvm.java.util.Objects.toString(token) != token or context._jsc.sc().isStopped():
                return False
            for query in session.streams.active:
                query.stop()
        except Exception as error:  # py4j raises almost anything when it reads a reply that was meant for another call.
            _log.warning("replacing the Spark session: %s", error)
            return False
        finally:
            overdue.cancel()
        return True


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Ask first: a JVM that may still run its shutdown hooks removes its files."""
    process.terminate()
    try:
        process.wait(EXIT_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@pytest.fixture(scope="session")
def spark_sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSessions]:
    sessions = SparkSessions(tmp_path_factory.mktemp("spark"))
    yield sessions
    sessions.discard()


@pytest.fixture
def spark(spark_sessions: SparkSessions) -> "SparkSession":
    return spark_sessions.usable()
