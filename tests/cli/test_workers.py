"""`ottla serve --workers N`: several processes that clients take for one cluster."""

import os
import signal
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.cli.serve import run
from ottla.cli.workers import worker_settings
from ottla.config.broker import BrokerConfig
from tests.cli.process_tree import eventually, running
from tests.compat.processes import free_port

READY = "Ottla is ready: "
TWO_LISTENERS = {
    "listeners": "PLAINTEXT://:9092,X://h:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,X:PLAINTEXT",
}


def options(directory: Path, *others: str) -> list[str]:
    return ["serve", "--workers", "2", "--data-dir", str(directory), "--listen", "127.0.0.1:0", *others]


def servers_of(line: str) -> str:
    return line.removeprefix(READY).replace("PLAINTEXT://", "").replace(", ", ",")


def test_the_first_worker_is_what_a_broker_alone_would_be() -> None:
    config = BrokerConfig({"broker.id": "4", "log.dirs": "/a,/b", **TWO_LISTENERS})
    assert worker_settings(config, 0) == {
        "node.id": "4",
        "broker.id": "4",
        "log.dirs": "/a,/b",
        "listeners": "PLAINTEXT://:9092,X://h:0",
        "store.file": "/a/store.sqlite",
    }


def test_other_workers_have_the_next_ids_and_ports_and_share_the_store() -> None:
    advertised = {"advertised.listeners": "PLAINTEXT://broker.example:9192"}
    config = BrokerConfig({"node.id": "4", "log.dirs": "/a,/b", **TWO_LISTENERS, **advertised})
    assert worker_settings(config, 2) == {
        "node.id": "6",
        "broker.id": "6",
        "log.dirs": "/a/workers/6,/b/workers/6",
        "listeners": "PLAINTEXT://:9094,X://h:0",
        "advertised.listeners": "PLAINTEXT://broker.example:9194",
        "store.file": "/a/store.sqlite",
    }


@pytest.mark.parametrize("key", ["zookeeper.connect", "store.file"])
def test_a_store_that_is_shared_anyway_is_used(key: str) -> None:
    settings = worker_settings(BrokerConfig({key: "somewhere"}), 1)
    assert "store.file" not in settings
    assert "zookeeper.connect" not in settings


def test_clients_see_one_cluster_and_a_dead_worker_comes_back(tmp_path: Path) -> None:
    with running(*options(tmp_path)) as workers:
        servers = servers_of(workers.wait_for_line(READY))
        assert len(servers.split(",")) == 2
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        eventually(lambda: len(admin.list_topics(timeout=10).brokers) == 2, "the controller knows both")
        admin.create_topics([NewTopic("clicks", 4, 1)])["clicks"].result(30)
        partitions = admin.list_topics("clicks", timeout=10).topics["clicks"].partitions
        assert sorted(partition.leader for partition in partitions.values()) == [1, 1, 2, 2]
        os.kill(workers.child("node.id=2"), signal.SIGKILL)
        workers.wait_for_line("[2] was ended by SIGKILL; it is started again")
        delivered: list[object] = []
        producer = Producer({"bootstrap.servers": servers.split(",")[0], "log_level": 0})
        for partition in range(4):
            producer.produce("clicks", b"x", partition=partition, on_delivery=lambda error, _: delivered.append(error))
        eventually(lambda: producer.flush(0.1) == 0, "all four partitions take a record")
        assert delivered == [None] * 4
        assert workers.end(signal.SIGTERM) == 0
        assert sum("stopped cleanly" in line for line in workers.output) == 2


def leaders(admin: AdminClient, topic: str) -> list[int]:
    return [partition.leader for partition in admin.list_topics(timeout=10).topics[topic].partitions.values()]


def test_a_broker_alone_can_have_company_later(tmp_path: Path) -> None:
    alone = ["serve", "--data-dir", str(tmp_path), "--listen", "127.0.0.1:0"]
    with running(*alone) as broker:
        admin = AdminClient({"bootstrap.servers": servers_of(broker.wait_for_line(READY)), "log_level": 0})
        admin.create_topics([NewTopic("clicks", 2, 1)])["clicks"].result(30)
        assert broker.end(signal.SIGTERM) == 0
    with running(*options(tmp_path)) as workers:
        admin = AdminClient({"bootstrap.servers": servers_of(workers.wait_for_line(READY)), "log_level": 0})
        eventually(lambda: sorted(admin.list_topics(timeout=10).brokers) == [1, 2], "clients see both")
        # The other one may have been there first, when nobody could lead.
        eventually(lambda: leaders(admin, "clicks") == [1, 1], "the first leads what it had alone")


def test_a_worker_that_cannot_start_ends_them_all(tmp_path: Path) -> None:
    with running(*options(tmp_path, "--set", f"listeners=PLAINTEXT://no-such-host.invalid:{free_port()}")) as workers:
        assert workers.wait() == 1
        assert any("Ottla cannot start: cannot listen on no-such-host.invalid" in line for line in workers.output)


def test_settings_that_are_wrong_are_found_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--workers", "2", "--data-dir", str(tmp_path / "data"), "--set", "num.partitions=many"]) == 1
    assert capsys.readouterr().err.startswith("Ottla cannot start: ")
    assert not (tmp_path / "data").exists()
