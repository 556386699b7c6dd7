"""The broker under test and the names each test works with.

`OTTLA_COMPAT_BOOTSTRAP=host:port` points the suite at a running Apache Kafka instead of Ottla: a test that passes on
one and not on the other has found a difference.
"""

import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import pytest
from confluent_kafka.admin import AdminClient

from tests.compat import topics
from tests.compat.processes import BrokerProcess

EXTERNAL_BROKER = os.environ.get("OTTLA_COMPAT_BOOTSTRAP")
HASTY = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "transaction.state.log.num.partitions": "4",
    "offsets.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
}
"""Transactions out of time are looked for five times a second; with few partitions, a new broker is soon at work."""


class Broker(Protocol):
    @property
    def bootstrap_servers(self) -> str: ...


@dataclass(frozen=True, slots=True)
class ExternalBroker:
    bootstrap_servers: str


class MakeTopic(Protocol):
    def __call__(self, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        """Create a topic with a name of its own; returns when every partition has a leader."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "rebalance: several members share a group, waits on heartbeats")


@pytest.fixture(scope="session")
def compat_broker(request: pytest.FixtureRequest) -> Broker:
    if EXTERNAL_BROKER:
        return ExternalBroker(EXTERNAL_BROKER)
    return cast("Broker", request.getfixturevalue("ottla_broker"))


@pytest.fixture(scope="session")
def bootstrap(compat_broker: Broker) -> str:
    return compat_broker.bootstrap_servers


@pytest.fixture(scope="session")
def admin(bootstrap: str) -> Any:
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Names no other test has, that still tell in a broker's log which test they belong to."""
    test_name = "".join(c if c.isalnum() else "-" for c in request.node.name)[:60].strip("-")
    return lambda: f"{test_name}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def group(unique: Callable[[], str]) -> str:
    return unique()


@pytest.fixture
def make_topic(admin: Any, unique: Callable[[], str]) -> MakeTopic:
    def make(partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        name = unique()
        topics.create(admin, name, partitions, config)
        return name

    return make


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    return make_topic()


@pytest.fixture(scope="session")
def hasty_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker with the settings above; Apache Kafka has to be started with the first of them."""
    if EXTERNAL_BROKER:
        yield EXTERNAL_BROKER
        return
    process = BrokerProcess(tmp_path_factory.mktemp("hasty") / "data", HASTY)
    process.start()
    yield process.bootstrap_servers
    process.kill()
    print(process.log())


@pytest.fixture
def broker_process(tmp_path: Path) -> Iterator[BrokerProcess]:
    if EXTERNAL_BROKER:
        pytest.skip("only a broker this suite starts itself can be killed")
    process = BrokerProcess(tmp_path / "data", {"group.initial.rebalance.delay.ms": "0"})
    process.start()
    yield process
    process.kill()
    print(process.log())
