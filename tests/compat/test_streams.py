"""Kafka Streams with exactly_once_v2: repartition topic, changelog, state restored, one transaction for all of it.

Needs a JDK and Kafka's jars, with kafka-streams among them: `make kafka-jars`, named by KAFKA_JARS.
"""

import os
import random
import shutil
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from tests.compat import topics
from tests.compat.confluent_client import Record, produce
from tests.compat.conftest import EXTERNAL_BROKER
from tests.compat.deadlines import eventually
from tests.compat.processes import BrokerProcess
from tests.torture.readers import read

JARS = os.environ.get("KAFKA_JARS", "")
pytestmark = [
    pytest.mark.skipif(
        not any(Path(JARS or ".").glob("kafka-streams-*.jar")), reason="KAFKA_JARS has no kafka-streams"
    ),
    pytest.mark.skipif(shutil.which("javac") is None, reason="a JDK is not installed"),
    pytest.mark.slow,
]

SOURCE = Path(__file__).with_name("kafka") / "WordCount.java"
PARTITIONS = 2
SESSION_TIMEOUT_MS = 6000 if EXTERNAL_BROKER else 1500
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
PATIENCE = 240.0


@pytest.fixture
def classes(tmp_path: Path) -> Path:
    target = tmp_path / "classes"
    subprocess.run(["javac", "-cp", f"{JARS}/*", "-d", str(target), str(SOURCE)], check=True, timeout=240)
    return target


@pytest.fixture
def streams_broker(tmp_path: Path) -> Iterator[BrokerProcess | None]:
    """One that notices quickly that a member of a group was killed. None for a broker that is not ours."""
    if EXTERNAL_BROKER:
        yield None
        return
    process = BrokerProcess(tmp_path / "data", SETTINGS)
    process.start()
    yield process
    process.kill()
    print(process.log())


class Application:
    """The word count: its topics, what was put in, and its processes one after the other."""

    def __init__(self, bootstrap: str, name: str, classes: Path, directory: Path) -> None:
        self._bootstrap = bootstrap
        self._name = name
        self._classes = classes
        self._directory = directory
        self._chance = random.Random(3)
        self.words: Counter[str] = Counter()
        self.log = directory / "application.log"
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for topic in (f"{name}-input", f"{name}-output"):
            topics.create(admin, topic, PARTITIONS)

    @contextmanager
    def running(self, state_dir: str) -> Iterator[subprocess.Popen[bytes]]:
        """Killed at the end of the context, in the middle of whatever it does."""
        java = ["java", "-Xmx256M", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{self._classes}:{JARS}/*"]
        names = [self._name, f"{self._name}-input", f"{self._name}-output", str(self._directory / state_dir)]
        command = [*java, "WordCount", self._bootstrap, *names, str(SESSION_TIMEOUT_MS)]
        with self.log.open("ab") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
            try:
                yield process
            finally:
                process.kill()

    def feed(self, lines: int) -> None:
        records = []
        for _ in range(lines):
            words = [f"word-{self._chance.randrange(40)}" for _ in range(3)]
            self.words.update(words)
            records.append(Record(" ".join(words).encode(), partition=self._chance.randrange(PARTITIONS)))
        produce(self._bootstrap, f"{self._name}-input", records)

    def counts(self, *, committed: bool = True) -> dict[str, list[int]]:
        """What the output says of each word, in the order in which it says it."""
        found: dict[str, list[int]] = defaultdict(list)
        output = read(self._bootstrap, f"{self._name}-output", PARTITIONS, committed=committed)
        for records in output.values():
            for record in records:
                found[record.key.decode()].append(int(record.value))
        return found

    def await_counts(self, number: int) -> None:
        eventually(lambda: sum(map(len, self.counts().values())) >= number, PATIENCE, 0.1)


def test_words_are_counted_exactly_once_by_an_application_that_is_killed(
    streams_broker: BrokerProcess | None, classes: Path, tmp_path: Path, unique: Any
) -> None:
    bootstrap = EXTERNAL_BROKER if streams_broker is None else streams_broker.bootstrap_servers
    assert bootstrap is not None
    application = Application(bootstrap, unique(), classes, tmp_path)
    application.feed(300)
    with application.running("state"):
        application.await_counts(1)
        application.feed(300)
        application.await_counts(1000)
    application.feed(300)
    with application.running("state"):
        application.await_counts(2000)
        if streams_broker is not None:
            streams_broker.kill()
            streams_broker.start()
        application.feed(300)
        application.await_counts(2800)
    application.feed(300)
    with application.running("state of another machine"):
        application.await_counts(application.words.total())
    assert application.counts() == {word: list(range(1, count + 1)) for word, count in application.words.items()}
