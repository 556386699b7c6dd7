"""The pytest plugin: `ottla_broker` and `ottla_cluster`, one of each per run (per xdist worker), and `ottla_topic`, one
topic per test.

The plugin imports the broker only when a test uses a fixture, so it does not slow down other projects.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ottla.testing.cluster import EmbeddedCluster
    from ottla.testing.embedded import EmbeddedBroker

_RUNNING: pytest.StashKey[dict[str, EmbeddedBroker | EmbeddedCluster]] = pytest.StashKey()
"""By the name of the fixture."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        "ottla_settings", "Broker settings for ottla_broker and ottla_cluster, one key=value per line", type="linelist"
    )
    parser.addini("ottla_partitions", "Number of partitions of the ottla_topic topic", default="1")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_RUNNING] = {}


@pytest.fixture(scope="session")
def ottla_broker(request: pytest.FixtureRequest) -> Iterator[EmbeddedBroker]:
    """A real broker, ready to use: `ottla_broker.bootstrap_servers`."""
    from ottla.testing.embedded import embedded

    with embedded(_settings(request.config)) as broker:
        request.config.stash[_RUNNING]["ottla_broker"] = broker
        yield broker
        del request.config.stash[_RUNNING]["ottla_broker"]


@pytest.fixture(scope="session")
def ottla_cluster(request: pytest.FixtureRequest) -> Iterator[EmbeddedCluster]:
    """A cluster of three real brokers: `ottla_cluster.bootstrap_servers`, `ottla_cluster.brokers`."""
    from ottla.testing.cluster import embedded_cluster

    with embedded_cluster(_settings(request.config)) as cluster:
        request.config.stash[_RUNNING]["ottla_cluster"] = cluster
        yield cluster
        del request.config.stash[_RUNNING]["ottla_cluster"]


@pytest.fixture
def ottla_topic(ottla_broker: EmbeddedBroker, request: pytest.FixtureRequest) -> str:
    """The name of a new topic for this test only."""
    from ottla.testing.topics import create_topic

    label = re.sub(r"[^a-zA-Z0-9._-]+", "-", request.node.name)[:100]
    name = f"{label}-{uuid.uuid4().hex[:8]}"
    create_topic(ottla_broker.bootstrap_servers, name, int(request.config.getini("ottla_partitions")))
    return name


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Repair what a test has broken before its own fixtures end: a consumer that they close needs the broker."""
    try:
        for broker in _used_by(item).values():
            broker.recover()
    finally:
        yield
    for broker in _used_by(item).values():
        broker.faults.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for fixture, broker in _used_by(item).items():
            report.sections.append((f"Ottla {fixture.removeprefix('ottla_')} log", broker.log()))
    return report


def _used_by(item: pytest.Item) -> dict[str, EmbeddedBroker | EmbeddedCluster]:
    names = getattr(item, "fixturenames", ())
    return {name: broker for name, broker in item.config.stash[_RUNNING].items() if name in names}


def _settings(config: pytest.Config) -> dict[str, str]:
    lines: list[str] = config.getini("ottla_settings")
    return dict(_pair(line) for line in lines)


def _pair(line: str) -> tuple[str, str]:
    key, separator, value = line.partition("=")
    if not separator:
        raise pytest.UsageError(f"ottla_settings needs key=value, not {line!r}")
    return key.strip(), value.strip()
