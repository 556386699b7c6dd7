"""The pytest plugin: `ottla_broker`, one broker per run (per xdist worker), and `ottla_topic`, one topic per test.

The plugin imports the broker only when a test uses a fixture, so it does not slow down other projects.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ottla.testing.embedded import EmbeddedBroker

_BROKER: pytest.StashKey[EmbeddedBroker] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("ottla_settings", "Broker settings for ottla_broker, one key=value per line", type="linelist")
    parser.addini("ottla_partitions", "Number of partitions of the ottla_topic topic", default="1")


@pytest.fixture(scope="session")
def ottla_broker(request: pytest.FixtureRequest) -> Iterator[EmbeddedBroker]:
    """A real broker, ready to use: `ottla_broker.bootstrap_servers`."""
    from ottla.testing.embedded import embedded

    lines: list[str] = request.config.getini("ottla_settings")
    settings = dict(_pair(line) for line in lines)
    with embedded(settings) as broker:
        request.config.stash[_BROKER] = broker
        yield broker


@pytest.fixture
def ottla_topic(ottla_broker: EmbeddedBroker, request: pytest.FixtureRequest) -> str:
    """The name of a new topic for this test only."""
    from ottla.testing.topics import create_topic

    label = re.sub(r"[^a-zA-Z0-9._-]+", "-", request.node.name)[:100]
    name = f"{label}-{uuid.uuid4().hex[:8]}"
    create_topic(ottla_broker.bootstrap_servers, name, int(request.config.getini("ottla_partitions")))
    return name


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    broker = item.config.stash.get(_BROKER, None)
    if report.failed and broker is not None and "ottla_broker" in getattr(item, "fixturenames", ()):
        report.sections.append(("Ottla broker log", broker.log()))
    return report


def _pair(line: str) -> tuple[str, str]:
    key, separator, value = line.partition("=")
    if not separator:
        raise pytest.UsageError(f"ottla_settings needs key=value, not {line!r}")
    return key.strip(), value.strip()
