"""The partitions of a broker follow the cluster image, even if images were missed."""

import shutil
from pathlib import Path

import pytest

from ottla.cluster.adoption import begin_new_epochs
from ottla.cluster.image import ClusterImage, image_from_tree
from ottla.cluster.topics import create_partitions
from ottla.cluster.znodes import topic_path
from ottla.config.broker import BrokerConfig
from ottla.config.topic import TopicConfig
from ottla.errors import ErrorCode
from ottla.log.config import LogConfig
from ottla.log.directory import LogDirectory
from ottla.log.log import Log
from ottla.model import TopicId, TopicPartition
from ottla.replication.partition import Partition
from tests.replication.cluster import Host, SmallCluster
from tests.replication.world import (
    batch,
    expect,
    kill,
    on_loop,
    settle,
    values,
    visible,
)


def test_partitions_appear_and_vanish_with_their_topics(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.create_topic("clicks", 2)
    host.create_topic("orders")
    assert sorted(host.hosted()) == ["clicks-0", "clicks-1", "orders-0"]
    assert host.on_disk() == [["clicks-0", "clicks-1", "orders-0"]]
    assert host.replicas.leader_of("clicks", 1).topic_partition == TopicPartition("clicks", 1)
    host.cluster.delete_topic("clicks")
    host.follow()
    assert sorted(host.hosted()) == ["orders-0"]
    assert host.on_disk() == [["orders-0"]]
    assert len(host.directories[0].trash) == 2
    with expect(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        host.replicas.leader_of("clicks", 0)


def test_what_does_not_exist_and_what_others_lead(tmp_path: Path) -> None:
    host = Host(tmp_path, cluster=SmallCluster(brokers=2))
    host.cluster.create_topic("mine", leader=1)
    host.cluster.create_topic("theirs", leader=2)
    host.follow()
    assert list(host.hosted()) == ["mine-0"]
    for topic, index in (("none", 0), ("mine", 1), ("mine", -1)):
        with expect(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            host.replicas.leader_of(topic, index)
    with expect(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        host.replicas.leader_of("theirs", 0)


def test_the_same_image_twice_changes_nothing(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.create_topic("clicks", 2)
    host.replicas.leader_of("clicks", 0).append(batch(b"a"))
    before = host.hosted()
    settings_before = [partition.config for partition in before.values()]
    host.follow()
    host.follow()
    assert host.hosted() == before
    assert all(now is was for now, was in zip(host.hosted().values(), before.values(), strict=True))
    assert all(p.config is was for p, was in zip(before.values(), settings_before, strict=True)), "nothing to configure"
    assert values(visible(host.replicas.leader_of("clicks", 0))) == [b"a"]


def test_more_partitions(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.create_topic("clicks")
    host.replicas.leader_of("clicks", 0).append(batch(b"a"))
    host.cluster.do(create_partitions(host.cluster.image, "clicks", 3)[0])
    host.follow()
    assert sorted(host.hosted()) == ["clicks-0", "clicks-1", "clicks-2"]
    assert values(visible(host.replicas.leader_of("clicks", 0))) == [b"a"]


@pytest.mark.parametrize("partitions", [1, 2, 3])
def test_deleted_and_created_again_between_two_looks(tmp_path: Path, partitions: int) -> None:
    """Only the topic id differs. The old records must be deleted even if the new topic has fewer partitions."""
    host = Host(tmp_path)
    host.create_topic("clicks", 2)
    for index in range(2):
        host.replicas.leader_of("clicks", index).append(batch(b"old"))
    host.cluster.recreate_topic("clicks", partitions)
    host.follow()
    expected = [f"clicks-{index}" for index in range(partitions)]
    assert sorted(host.hosted()) == expected
    assert host.on_disk() == [expected]
    assert all(visible(partition) == [] for partition in host.replicas)
    topic_id = host.cluster.image.topics["clicks"].topic_id
    assert {partition.topic_id for partition in host.replicas} == {topic_id}
    if partitions < 2:
        with expect(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            host.replicas.leader_of("clicks", 1)


def test_recreated_while_the_broker_was_down(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.create_topic("clicks", 2)
    host.replicas.leader_of("clicks", 0).append(batch(b"old"))
    kill(host.directories[0])
    host.cluster.recreate_topic("clicks", 1)
    again = Host(tmp_path, cluster=host.cluster)
    again.follow()
    again.replicas.delete_strays()
    assert visible(again.replicas.leader_of("clicks", 0)) == []
    assert again.on_disk() == [["clicks-0"]]


def test_restarted_with_the_same_topics(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.create_topic("clicks")
    host.replicas.leader_of("clicks", 0).append(batch(b"kept"))
    kill(host.directories[0])
    again = Host(tmp_path, cluster=host.cluster)
    again.follow()
    again.replicas.delete_strays()
    assert values(visible(again.replicas.leader_of("clicks", 0))) == [b"kept"]


def test_a_log_that_is_missing_at_the_start_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    host = Host(tmp_path)
    host.create_topic("clicks", 2)
    kill(host.directories[0])
    shutil.rmtree(host.replicas.leader_of("clicks", 1).log.path)
    caplog.clear()
    again = Host(tmp_path, cluster=host.cluster)
    again.follow()
    again.create_topic("views")
    assert [record.getMessage() for record in caplog.records if "an empty one" in record.getMessage()] == [
        "clicks-1 has no log in any of the log directories; starting with an empty one"
    ]


# Strays


def test_logs_that_the_cluster_does_not_know_are_deleted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The broker crashed between the deletion of a topic in the store and the deletion of its logs."""
    caplog.set_level("INFO")
    host = Host(tmp_path)
    host.create_topic("clicks", 2)
    host.create_topic("gone", 2)
    kill(host.directories[0])
    host.cluster.delete_topic("gone")
    again = Host(tmp_path, cluster=host.cluster)
    again.follow()
    again.replicas.delete_strays()
    assert again.on_disk() == [["clicks-0", "clicks-1"]]
    assert "deleting gone-1, which the cluster does not assign to this broker" in caplog.text


def test_the_log_of_a_topic_whose_node_is_damaged_is_no_stray(tmp_path: Path) -> None:
    """A broker that starts has no last good value of the node."""
    host = Host(tmp_path)
    host.create_topic("clicks")
    host.replicas.leader_of("clicks", 0).append(batch(b"precious"))
    kill(host.directories[0])
    again = Host(tmp_path, cluster=host.cluster)
    nodes = again.cluster.tree.nodes
    path = topic_path("clicks")
    damaged = image_from_tree({**nodes, path: nodes[path]._replace(data=b"nonsense")})
    again.replicas.apply(damaged, again.config)
    again.replicas.delete_strays()
    assert again.on_disk() == [["clicks-0"]]
    again.replicas.apply(damaged.updated({path: nodes[path]}), again.config)
    assert values(visible(again.replicas.leader_of("clicks", 0))) == [b"precious"]


def test_a_log_that_cannot_be_served_now_is_no_stray(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.create_topic("clicks")
    host.replicas.leader_of("clicks", 0).append(batch(b"precious"))
    kill(host.directories[0])
    again = Host(tmp_path, cluster=host.cluster)
    again.disk.break_("read_bytes", "partition.metadata")
    again.follow()
    again.replicas.delete_strays()
    assert again.on_disk() == [["clicks-0"]]
    with expect(ErrorCode.KAFKA_STORAGE_ERROR):
        again.replicas.leader_of("clicks", 0)
    again.disk.repair()
    again.follow()
    assert values(visible(again.replicas.leader_of("clicks", 0))) == [b"precious"]


def test_many_new_partitions_are_made_little_by_little(tmp_path: Path) -> None:
    """Creating logs blocks the event loop, so other work runs in between."""
    host = Host(tmp_path)
    host.cluster.create_topic("clicks", 250)
    host.follow()
    assert (len(host.hosted()), host.replicas.all_hosted, host.replicas.unserved()) == (100, False, set())
    with expect(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        host.replicas.leader_of("clicks", 249)
    host.clock.advance(0.0)
    host.clock.advance(0.0)
    assert (len(host.hosted()), host.replicas.all_hosted) == (250, True)
    assert host.replicas.leader_of("clicks", 249).append(batch()).base_offset == 0


def test_many_new_partitions_are_made_on_a_slow_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions that exist take no time from those that are still missing, or the topic would never be complete."""
    host = Host(tmp_path)
    configured = 0
    configure = Partition.configure

    def configure_slowly(partition: Partition, config: TopicConfig) -> None:
        nonlocal configured
        configured += 1
        host.clock.now += 0.01
        configure(partition, config)

    monkeypatch.setattr(Partition, "configure", configure_slowly)
    host.cluster.create_topic("clicks", 250)
    host.follow()
    for _ in range(10):
        assert host.clock.pending <= 1
        host.clock.advance(0.0)
    assert (len(host.hosted()), host.replicas.all_hosted, configured) == (250, True, 0)
    host.cluster.do(create_partitions(host.cluster.image, "clicks", 251)[0])
    host.cluster.configure_topic("clicks", {"retention.ms": "1"})
    host.follow()
    assert (len(host.hosted()), host.replicas.all_hosted, configured) == (251, True, 250)
    assert {partition.config.retention_ms for partition in host.replicas} == {1}


def delete_slowly(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    delete_log = LogDirectory.delete_log

    def slowly(directory: LogDirectory, key: TopicPartition) -> None:
        host.clock.now += 0.015
        delete_log(directory, key)

    monkeypatch.setattr(LogDirectory, "delete_log", slowly)


def test_logs_of_a_deleted_topic_are_deleted_in_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(tmp_path)
    host.create_topic("clicks", 5)
    partition = host.replicas.leader_of("clicks", 4)
    delete_slowly(host, monkeypatch)
    host.cluster.delete_topic("clicks")
    host.follow()
    assert (host.hosted(), host.on_disk()) == ({}, [["clicks-2", "clicks-3", "clicks-4"]])
    assert partition.is_offline, "the topic is not served while its logs are deleted"
    with expect(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        host.replicas.leader_of("clicks", 4)
    host.follow()
    assert len(host.on_disk()[0]) == 3, "another image does not delete more at once"
    host.clock.advance(0.0)
    host.clock.advance(0.0)
    assert host.on_disk() == [[]]
    assert host.clock.pending == 0


def test_a_new_topic_with_the_name_of_one_whose_logs_are_being_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host(tmp_path)
    host.create_topic("clicks", 5)
    host.replicas.leader_of("clicks", 4).append(batch(b"old"))
    delete_slowly(host, monkeypatch)
    host.cluster.delete_topic("clicks")
    host.follow()
    host.create_topic("clicks", 5)
    for _ in range(5):
        host.clock.advance(0.0)
    assert host.on_disk() == [[f"clicks-{index}" for index in range(5)]]
    assert values(visible(host.replicas.leader_of("clicks", 4))) == []
    assert host.replicas.leader_of("clicks", 4).append(batch(b"new")).base_offset == 0


def test_a_topic_that_one_image_lacks_keeps_the_logs_that_were_not_deleted_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host(tmp_path)
    host.create_topic("clicks", 5)
    host.replicas.leader_of("clicks", 4).append(batch(b"kept"))
    delete_slowly(host, monkeypatch)
    host.replicas.apply(ClusterImage(), host.config)
    host.follow()
    for _ in range(5):
        host.clock.advance(0.0)
    assert len(host.hosted()) == 5
    assert values(visible(host.replicas.leader_of("clicks", 4))) == [b"kept"]


def test_a_crash_while_logs_of_a_deleted_topic_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(tmp_path)
    host.create_topic("clicks", 5)
    delete_slowly(host, monkeypatch)
    host.cluster.delete_topic("clicks")
    host.follow()
    kill(host.directories[0])
    again = Host(tmp_path, cluster=host.cluster)
    again.follow()
    again.replicas.delete_strays()
    assert again.on_disk() == [[]]


@pytest.mark.parametrize("seconds", [0.0, 0.1])
def test_settings_that_change_while_partitions_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """Also if each new log takes longer than `apply` may take."""
    host = Host(tmp_path)
    create_log = LogDirectory.create_log

    def create_slowly(directory: LogDirectory, key: TopicPartition, topic_id: TopicId, config: LogConfig) -> Log:
        host.clock.now += seconds
        return create_log(directory, key, topic_id, config)

    monkeypatch.setattr(LogDirectory, "create_log", create_slowly)
    host.cluster.create_topic("clicks", 120)
    host.follow()
    assert not host.replicas.all_hosted
    host.cluster.configure_topic("clicks", {"retention.ms": "1"})
    host.follow()
    for _ in range(150):
        assert host.clock.pending <= 1
        host.clock.advance(0.01)
    assert (len(host.hosted()), host.replicas.all_hosted) == (120, True)
    assert {partition.config.retention_ms for partition in host.replicas} == {1}


# Trouble


def test_a_topic_that_the_disk_refuses_is_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    host = Host(tmp_path)
    host.disk.break_("make_directory", "clicks-1")
    host.cluster.create_topic("clicks", 2)
    host.cluster.create_topic("orders")
    host.follow()
    assert sorted(host.hosted()) == ["clicks-0", "orders-0"]
    assert "clicks cannot be served, will retry: [Errno 5]" in caplog.text
    assert (host.replicas.all_hosted, host.replicas.unserved()) == (False, {TopicPartition("clicks", 1)})
    with expect(ErrorCode.KAFKA_STORAGE_ERROR):
        host.replicas.leader_of("clicks", 1)
    first = host.replicas.leader_of("clicks", 0)
    host.disk.repair()
    host.follow()
    assert host.replicas.leader_of("clicks", 1).append(batch()).base_offset == 0
    assert host.replicas.leader_of("clicks", 0) is first
    assert (host.replicas.all_hosted, host.replicas.unserved()) == (True, set())


def test_stored_settings_that_make_no_sense_concern_one_topic_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    host = Host(tmp_path)
    host.cluster.create_topic("clicks", configs={"retention.ms": "soon"})
    host.cluster.create_topic("orders")
    host.follow()
    assert list(host.hosted()) == ["orders-0"]
    assert "clicks cannot be served" in caplog.text
    host.cluster.configure_topic("clicks", {"retention.ms": "1000"})
    host.follow()
    assert host.replicas.leader_of("clicks", 0).config.retention_ms == 1000


def test_a_log_that_cannot_be_deleted_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    host = Host(tmp_path)
    host.create_topic("clicks", 2)
    host.disk.break_("rename", "clicks-0")
    host.cluster.delete_topic("clicks")
    host.follow()
    assert host.hosted() == {}
    assert host.on_disk() == [["clicks-0"]]
    assert "cannot delete clicks-0, which stays until the next start" in caplog.text


# Settings and leaders


def test_settings_of_a_topic_change_for_its_partitions(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.create_topic("clicks", 2)
    host.create_topic("orders")
    orders = host.replicas.leader_of("orders", 0).config
    host.cluster.configure_topic("clicks", {"retention.ms": "1000", "flush.messages": "1"})
    host.follow()
    for index in range(2):
        partition = host.replicas.leader_of("clicks", index)
        assert (partition.config.retention_ms, partition.config.flush_messages) == (1000, 1)
        assert (partition.log.config.retention_ms, partition.log.config.flush_messages) == (1000, 1)
    assert host.replicas.leader_of("orders", 0).config is orders
    host.cluster.configure_topic("clicks", {})
    host.follow()
    assert host.replicas.leader_of("clicks", 0).config.retention_ms == orders.retention_ms


def test_settings_of_the_broker_are_the_defaults_of_every_topic(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.cluster.create_topic("own", configs={"retention.ms": "1000"})
    host.create_topic("clicks")
    host.config = BrokerConfig({"log.retention.ms": "5000"})
    host.follow()
    assert host.replicas.leader_of("clicks", 0).config.retention_ms == 5000
    assert host.replicas.leader_of("own", 0).config.retention_ms == 1000


def test_a_log_opened_from_disk_gets_the_topics_settings(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.create_topic("clicks")
    kill(host.directories[0])
    host.cluster.configure_topic("clicks", {"retention.ms": "1000"})
    again = Host(tmp_path, cluster=host.cluster)
    again.follow()
    assert again.replicas.leader_of("clicks", 0).log.config.retention_ms == 1000


def test_a_new_leader_epoch_begins_at_the_end(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.create_topic("clicks")
    partition = host.replicas.leader_of("clicks", 0)
    partition.append(batch(b"a"))
    host.cluster.do(begin_new_epochs(host.cluster.image, 1, [TopicPartition("clicks", 0)]))
    host.follow()
    assert host.replicas.leader_of("clicks", 0) is partition
    assert partition.leader_epoch == 1
    assert partition.log.end_offset_for_epoch(0) == (0, 1)


# Several log directories


def test_partitions_are_spread_over_the_log_directories(tmp_path: Path) -> None:
    host = Host(tmp_path, directories=2)
    host.create_topic("clicks", 5)
    host.create_topic("orders", 3)
    assert [len(names) for names in host.on_disk()] == [4, 4]
    for partition in host.replicas:
        partition.append(batch(str(partition).encode()))
    for directory in host.directories:
        kill(directory)
    again = Host(tmp_path, directories=2, cluster=host.cluster)
    again.follow()
    again.replicas.delete_strays()
    assert again.on_disk() == host.on_disk()
    assert all(values(visible(partition)) == [str(partition).encode()] for partition in again.replicas)


def test_a_deleted_topic_leaves_every_log_directory(tmp_path: Path) -> None:
    host = Host(tmp_path, directories=2)
    host.create_topic("clicks", 4)
    host.cluster.delete_topic("clicks")
    host.follow()
    assert host.on_disk() == [[], []]
    assert [len(directory.trash) for directory in host.directories] == [2, 2]


# Those who wait


@on_loop
async def test_a_deleted_topic_refuses_those_who_wait_for_a_sync(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.cluster.create_topic("clicks", configs={"flush.messages": "1"})
    host.follow()
    wait = host.replicas.leader_of("clicks", 0).append(batch()).wait
    assert wait is not None
    host.cluster.delete_topic("clicks")
    host.follow()
    await settle()
    with expect(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        await wait


def test_closing_takes_every_partition_offline(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.create_topic("clicks", 2)
    host.replicas.close()
    for partition in host.replicas:
        with expect(ErrorCode.KAFKA_STORAGE_ERROR):
            partition.append(batch())
