"""A broker with one record. Every attack must leave the record unchanged."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

import ottla
from ottla import EmbeddedBroker
from tests.server.wire_client import WireClient, batch, create_topic, fetch, is_served, produce

STORED = batch(b"acknowledged")


@dataclass
class Target:
    """The attacked broker and its log."""

    broker: EmbeddedBroker
    topic: str
    log: pytest.LogCaptureFixture

    @property
    def bootstrap_servers(self) -> str:
        return self.broker.bootstrap_servers

    def connect(self, timeout: float = 60.0) -> WireClient:
        return WireClient(self.bootstrap_servers, timeout)

    def complaints(self) -> list[str]:
        """The warnings and errors that the broker logged during this test."""
        return [
            record.getMessage()
            for record in self.log.records
            if record.name.startswith("ottla") and record.levelno >= logging.WARNING
        ]


@pytest.fixture(scope="module")
def attacked_broker() -> Iterator[EmbeddedBroker]:
    with ottla.embedded({"auto.create.topics.enable": "false", "offsets.topic.num.partitions": "1"}) as broker:
        create_topic(broker.bootstrap_servers, "stored")
        with WireClient(broker.bootstrap_servers) as client:
            assert produce(client, "stored", STORED).base_offset == 0
        yield broker


@pytest.fixture
def target(attacked_broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture) -> Iterator[Target]:
    """After each test, other clients must be served, and the stored record must be unchanged."""
    with WireClient(attacked_broker.bootstrap_servers) as bystander:
        assert fetch(bystander, "stored")
        yield Target(attacked_broker, "stored", caplog)
        found = fetch(bystander, "stored")
    assert is_served(attacked_broker.bootstrap_servers)
    assert found[:8] == bytes(8)
    assert found[16 : len(STORED)] == STORED[16:]
