"""A log directory: its lock, its identity, its checkpoints, creation and deletion of partitions."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.env.disk import OsDisk
from ottla.log.config import LogConfig
from ottla.log.directory import LogDirectory, LogDirectoryError
from ottla.model import TopicId, TopicPartition, format_topic_id
from tests.log.fault_disk import FaultDisk
from tests.log.world import CLICKS, TOPIC_ID, StillClock, append, batch, new_log, open_directory

NO_DELAY = LogConfig(file_delete_delay_ms=0)


def opened_as(disk: FaultDisk, cluster_id: str, node_id: int) -> LogDirectory:
    return LogDirectory.open(
        disk, StillClock(), "/data", cluster_id=cluster_id, node_id=node_id, config_of=lambda _: LogConfig()
    )


def test_a_new_directory_is_made_and_named() -> None:
    disk = FaultDisk()
    directory = open_directory(disk, path="/srv/kafka/data")
    assert disk.list("/srv/kafka/data") == ["meta.properties"]
    lines = disk.read_bytes("/srv/kafka/data/meta.properties").decode().splitlines()
    assert [line.split("=")[0] for line in lines] == ["cluster.id", "directory.id", "node.id", "version"]
    assert "cluster.id=a-cluster" in lines
    assert "node.id=1" in lines
    assert "version=1" in lines
    identity = directory.identity
    directory.close()
    assert open_directory(disk, path="/srv/kafka/data").identity == identity


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "message"),
    [
        ("another", 1, "log directory /data belongs to cluster a-cluster, but this broker is in another"),
        ("a-cluster", 2, "log directory /data belongs to broker 1, not to 2"),
    ],
)
def test_anothers_directory_is_refused(cluster_id: str, node_id: int, message: str) -> None:
    disk = FaultDisk()
    open_directory(disk).close()
    with pytest.raises(LogDirectoryError, match=message):
        opened_as(disk, cluster_id, node_id)
    open_directory(disk)  # The lock was released.


def test_a_directory_of_kafka_under_zookeeper_is_accepted() -> None:
    disk = FaultDisk()
    disk.make_directory("/data")
    disk.replace_bytes(
        "/data/meta.properties", b"#\n#Sun Nov 15 10:00:00 UTC 2026\nversion=0\nbroker.id=1\ncluster.id=a-cluster\n"
    )
    opened_as(disk, "a-cluster", 1).close()
    assert b"node.id=1\nversion=1\n" in disk.read_bytes("/data/meta.properties")


@pytest.mark.parametrize("text", [b"version=9\n", b"version=1\nnode.id=one\n"])
def test_properties_that_make_no_sense_are_refused(text: bytes) -> None:
    disk = FaultDisk()
    disk.make_directory("/data")
    disk.replace_bytes("/data/meta.properties", text)
    with pytest.raises(LogDirectoryError, match="cannot be parsed"):
        open_directory(disk)


def test_the_same_directory_is_not_opened_twice() -> None:
    disk = FaultDisk()
    directory = open_directory(disk)
    with pytest.raises(LogDirectoryError, match="log directory /data is in use by another process"):
        open_directory(disk)
    directory.close()
    open_directory(disk)


def test_another_process_cannot_open_the_same_directory(tmp_path: Path) -> None:
    directory = open_directory(OsDisk(), path=str(tmp_path))
    program = (
        "import sys\n"
        "from ottla.env.disk import OsDisk\n"
        "from ottla.log.directory import LogDirectoryError\n"
        "from tests.log.world import open_directory\n"
        "try:\n"
        "    open_directory(OsDisk(), path=sys.argv[1])\n"
        "except LogDirectoryError as error:\n"
        "    print(error)\n"
    )
    arguments = [sys.executable, "-c", program, str(tmp_path)]
    root = Path(__file__).parents[2]
    refused = subprocess.run(arguments, capture_output=True, text=True, cwd=root, check=True)
    assert refused.stdout == f"log directory {tmp_path} is in use by another process\n"
    directory.close()
    allowed = subprocess.run(arguments, capture_output=True, text=True, cwd=root, check=True)
    assert allowed.stdout == ""


def test_a_read_only_directory_is_refused() -> None:
    disk = FaultDisk()
    disk.make_directory("/data")
    disk.read_only = True
    with pytest.raises(LogDirectoryError, match="log directory /data cannot be written: Read-only file system"):
        open_directory(disk)


def test_a_path_that_is_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(LogDirectoryError, match="cannot be written: Not a directory"):
        open_directory(OsDisk(), path=str(file))


def test_a_new_partition_has_kafkas_files(tmp_path: Path) -> None:
    directory = open_directory(OsDisk(), path=str(tmp_path))
    log = directory.create_log(CLICKS, TOPIC_ID, LogConfig())
    assert sorted(os.listdir(log.path)) == ["00000000000000000000.log", "partition.metadata"]
    assert (tmp_path / "clicks-0" / "partition.metadata").read_text() == (
        f"version: 0\ntopic_id: {format_topic_id(TOPIC_ID)}"
    )
    assert directory.topic_id(CLICKS) == TOPIC_ID
    append(log)
    directory.close()
    assert sorted(os.listdir(log.path)) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]
    assert sorted(os.listdir(tmp_path)) == [
        ".kafka_cleanshutdown",
        ".lock",
        "clicks-0",
        "meta.properties",
        "recovery-point-offset-checkpoint",
    ]


def test_a_partition_is_created_once() -> None:
    directory, _ = new_log(FaultDisk())
    with pytest.raises(LogDirectoryError, match="clicks-0 exists already"):
        directory.create_log(CLICKS, TOPIC_ID, LogConfig())


def test_a_partition_without_metadata_has_no_topic_id() -> None:
    disk = FaultDisk()
    directory, log = new_log(disk)
    disk.remove(f"{log.path}/partition.metadata")
    assert directory.topic_id(CLICKS) is None


def test_a_deleted_partition_frees_its_disk_after_the_delay() -> None:
    disk, clock = FaultDisk(), StillClock()
    directory, log = new_log(disk, clock)
    append(log)
    directory.delete_log(CLICKS)
    assert CLICKS not in directory.logs
    (name,) = [name for name in disk.list("/data") if name.endswith("-delete")]
    assert name.startswith("clicks-0.")
    assert len(name) == len("clicks-0.") + 32 + len("-delete")
    directory.trash.sweep()
    assert disk.exists(f"/data/{name}")
    clock.now_ms += 60_000
    directory.trash.sweep()
    assert not disk.exists(f"/data/{name}")


def test_a_namesake_can_be_created_at_once_and_inherits_nothing() -> None:
    disk = FaultDisk()
    directory, log = new_log(disk, config=NO_DELAY)
    append(log, batch(9))
    log.delete_records_before(5)
    log.synced(log.sync())
    directory.checkpoint_recovery_points()
    directory.checkpoint_log_start_offsets()
    directory.checkpoint_high_watermarks({CLICKS: 9})
    directory.delete_log(CLICKS)
    other = TopicId(bytes(16))
    log = directory.create_log(CLICKS, other, LogConfig())
    append(log, batch(2))
    disk.kill()
    directory = open_directory(disk)
    log = directory.logs[CLICKS]
    assert (log.log_start_offset, log.end_offset, log.recovery_point) == (0, 2, 0)
    assert (directory.topic_id(CLICKS), directory.read_high_watermarks()) == (other, {})


def test_a_deletion_cut_short_is_finished_at_the_next_start() -> None:
    disk = FaultDisk()
    directory, _ = new_log(disk)
    directory.delete_log(CLICKS)
    disk.kill()
    directory = open_directory(disk)
    assert directory.logs == {}
    directory.trash.sweep()
    assert not [name for name in disk.list("/data") if name.endswith("-delete")]


def test_all_logs_come_back() -> None:
    disk = FaultDisk()
    directory = open_directory(disk)
    keys = [TopicPartition(f"topic-{number % 3}", number) for number in range(12)]
    for number, key in enumerate(keys):
        log = directory.create_log(key, TOPIC_ID, LogConfig())
        for _ in range(number):
            append(log)
    directory.close()
    disk.make_directory("/data/lost+found")
    directory = open_directory(disk)
    assert {key: log.end_offset for key, log in directory.logs.items()} == {
        key: number for number, key in enumerate(keys)
    }


def test_high_watermarks_are_kept() -> None:
    disk = FaultDisk()
    directory, _ = new_log(disk)
    assert directory.read_high_watermarks() == {}
    directory.checkpoint_high_watermarks({CLICKS: 5})
    assert disk.read_bytes("/data/replication-offset-checkpoint") == b"0\n1\nclicks 0 5\n"
    disk.kill()
    assert open_directory(disk).read_high_watermarks() == {CLICKS: 5}


def test_only_the_high_watermarks_of_partitions_that_are_here_are_kept() -> None:
    directory, _ = new_log(FaultDisk())
    directory.checkpoint_high_watermarks({CLICKS: 5, TopicPartition("elsewhere", 0): 7})
    assert directory.read_high_watermarks() == {CLICKS: 5}


def test_a_checkpoint_that_says_the_same_is_not_written_again() -> None:
    disk = FaultDisk()
    directory, _ = new_log(disk)
    directory.checkpoint_recovery_points()
    disk.remove("/data/recovery-point-offset-checkpoint")
    directory.checkpoint_recovery_points()
    assert not disk.exists("/data/recovery-point-offset-checkpoint")


def test_a_damaged_checkpoint_costs_a_check_and_no_record(caplog: pytest.LogCaptureFixture) -> None:
    disk = FaultDisk()
    directory, log = new_log(disk)
    append(log)
    log.synced(log.sync())
    directory.checkpoint_recovery_points()
    disk.kill()
    disk.replace_bytes("/data/recovery-point-offset-checkpoint", b"what?")
    directory = open_directory(disk)
    assert directory.logs[CLICKS].end_offset == 1
    assert "which is damaged" in caplog.text


def test_the_marker_of_a_clean_stop_is_gone_while_the_directory_is_open() -> None:
    disk = FaultDisk()
    directory, _ = new_log(disk)
    marker = "/data/.kafka_cleanshutdown"
    assert not disk.exists(marker)
    directory.close()
    assert disk.read_bytes(marker) == b'{"version":0,"brokerEpoch":-1}'
    open_directory(disk)
    assert not disk.exists(marker)


def test_a_stop_after_a_failed_sync_is_not_called_clean(caplog: pytest.LogCaptureFixture) -> None:
    """The next sync may succeed although the failed one has lost data, so the log must be read again."""
    disk = FaultDisk()
    directory, log = new_log(disk)
    append(log)
    disk.sync_fails = True
    with pytest.raises(OSError, match="Input/output"):
        log.sync()
    disk.sync_fails = False
    directory.close()
    assert not disk.exists("/data/.kafka_cleanshutdown")
    assert "a sync has failed" in caplog.text
    assert open_directory(disk).logs[CLICKS].end_offset == 1


def test_a_partition_that_cannot_be_opened_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FaultDisk()
    directory, _ = new_log(disk)
    directory.close()

    def failing(path: str) -> int:
        raise OSError(5, "Input/output error", path)

    monkeypatch.setattr(disk, "size", failing)
    with pytest.raises(LogDirectoryError, match=r"Input/output error.*clicks-0"):
        open_directory(disk)
    monkeypatch.undo()
    open_directory(disk)


def test_the_volume_is_told() -> None:
    disk = FaultDisk()
    directory = open_directory(disk)
    disk.room = 1000
    assert directory.usage() == (1 << 40, 1000)
