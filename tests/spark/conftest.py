"""The broker of the Spark tests. Their session is in `sessions.py`."""

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ottla.testing.embedded import EmbeddedBroker

EXTERNAL_BROKER = os.environ.get("OTTLA_COMPAT_BOOTSTRAP")


@pytest.fixture
def bootstrap(request: pytest.FixtureRequest) -> str:
    """`OTTLA_COMPAT_BOOTSTRAP=host:port` has these tests run against Apache Kafka instead."""
    if EXTERNAL_BROKER:
        return EXTERNAL_BROKER
    broker: EmbeddedBroker = request.getfixturevalue("ottla_broker")
    return broker.bootstrap_servers
