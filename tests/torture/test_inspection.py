"""The inspection finds an open transaction, and reports none if there is none."""

import os
import shutil
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tests.compat import topics
from tests.compat.processes import BrokerProcess
from tests.torture.brokers import ottla
from tests.torture.inspection import dump_log, open_transactions, unstable_partitions


def begin(bootstrap: str, name: str) -> Producer:
    """A transaction with a record in the topic of its name."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(name, value=b"value", key=b"key")
    assert producer.flush(30) == 0
    return producer


@pytest.fixture
def broker(tmp_path: Path) -> BrokerProcess:
    """A broker that is stopped when the test has read its files, or killed."""
    return ottla(tmp_path)


def test_an_open_transaction_is_seen_until_its_end(broker: BrokerProcess) -> None:
    broker.start()
    try:
        bootstrap = broker.bootstrap_servers
        topics.create(AdminClient({"bootstrap.servers": bootstrap}), "open")
        producer = begin(bootstrap, "open")
        assert open_transactions(bootstrap, "open") == ["open is Ongoing"]
        assert unstable_partitions(bootstrap, ["open"]) == ["open-0 is stable up to 0 of 1"]
        producer.commit_transaction(30)
        assert open_transactions(bootstrap, "open") == []
        assert unstable_partitions(bootstrap, ["open"]) == []
        with pytest.raises(AssertionError, match="none of 1 listed transactions is of this run"):
            open_transactions(bootstrap, "other")
    finally:
        broker.kill()


@pytest.mark.slow
@pytest.mark.skipif(
    not os.environ.get("KAFKA_JARS") or shutil.which("java") is None,
    reason="no KAFKA_JARS, or no Java",
)
def test_dump_log_complains_of_a_broken_file(broker: BrokerProcess) -> None:
    broker.start()
    try:
        topics.create(AdminClient({"bootstrap.servers": broker.bootstrap_servers}), "broken")
        begin(broker.bootstrap_servers, "broken").commit_transaction(30)
    finally:
        broker.kill()
    assert dump_log(broker.data_dir, ["broken", "__transaction_state"]) == []
    [log] = broker.data_dir.glob("**/broken-0/*.log")
    data = bytearray(log.read_bytes())
    data[data.index(b"value")] ^= 1
    log.write_bytes(data)
    [complaint] = dump_log(broker.data_dir, ["broken"])
    assert "isvalid: false" in complaint
