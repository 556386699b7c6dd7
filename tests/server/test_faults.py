"""A broker process with faults: directories, ports, disks, signals, crashes."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from ottla.errors import ErrorCode
from ottla.server.main import serve
from ottla.wire.api.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.api.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic
from tests.compat.processes import free_port
from tests.server.broker_process import TIMEOUT, broker_process, command
from tests.server.small_disk import fill, small_disk
from tests.server.wire_client import WireClient, batch, create_topic, fetch, is_served, produce

CLEAN = ".kafka_cleanshutdown"
CLUSTER_ID = "dXNlZCBpbiBhIHRlc3Qh"


def assert_one_sentence(error_output: str, *expected: str) -> None:
    (line,) = error_output.strip().splitlines()
    assert line.startswith("Ottla cannot start: ")
    for text in expected:
        assert text in line


class Refusal:
    """Start a broker that must fail to start, in this process, which is faster."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, data_dir: Path, settings: Mapping[str, str] | None = None, listen: str = "127.0.0.1:0") -> str:
        """The broker's output on standard error."""
        self._capsys.readouterr()
        assert serve(None, data_dir, listen, settings) == 1
        out, error = self._capsys.readouterr()
        assert "Ottla is ready" not in out
        return error


@pytest.fixture
def refusal(capsys: pytest.CaptureFixture[str]) -> Refusal:
    return Refusal(capsys)


class TestStart:
    def test_a_second_process_on_the_same_directory(self, tmp_path: Path) -> None:
        with broker_process(tmp_path) as first:
            create_topic(first.bootstrap_servers, "clicks")
            second = subprocess.run(command(tmp_path), capture_output=True, text=True, timeout=TIMEOUT)
            assert second.returncode == 1
            assert_one_sentence(second.stderr, str(tmp_path), "in use by another process")
            with WireClient(first.bootstrap_servers) as client:
                assert produce(client, "clicks", batch(b"still here")).error_code == ErrorCode.NONE

    def test_a_port_that_is_taken(self, refusal: Refusal, tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            assert_one_sentence(refusal(tmp_path, listen=address), address, "already in use", "--listen")

    def test_a_host_that_does_not_exist(self, refusal: Refusal, tmp_path: Path) -> None:
        assert_one_sentence(refusal(tmp_path, listen="no-such-host.invalid:0"), "no-such-host.invalid")

    @pytest.mark.parametrize("suffix", ["", "/data"])
    def test_a_file_where_the_directory_should_be(self, suffix: str, refusal: Refusal, tmp_path: Path) -> None:
        file = tmp_path / "file"
        file.touch()
        assert_one_sentence(refusal(Path(f"{file}{suffix}")), f"{file}{suffix}")

    @pytest.mark.parametrize("has_data", [False, True])
    def test_a_directory_that_cannot_be_written(self, has_data: bool, refusal: Refusal, tmp_path: Path) -> None:
        with small_disk(tmp_path / "disk", "16m") as disk:
            if has_data:
                with broker_process(disk) as broker:
                    broker.terminate()
            subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
            assert_one_sentence(refusal(disk), str(disk), "Read-only file system")

    @pytest.mark.parametrize(
        "key, value",
        [
            ("num.partitions", "many"),
            ("num.partitions", "0"),
            ("log.retention.bytes", "9" * 30),
            ("listeners", "PLAINTEXT://127.0.0.1:99999"),
            ("listeners", "127.0.0.1"),
            ("auto.create.topics.enable", "perhaps"),
            ("compression.type", "rar"),
        ],
    )
    def test_a_bad_value(self, key: str, value: str, refusal: Refusal, tmp_path: Path) -> None:
        assert_one_sentence(refusal(tmp_path, {key: value}), key, value)

    def test_what_is_not_served_yet(self, refusal: Refusal, tmp_path: Path) -> None:
        assert_one_sentence(refusal(tmp_path, {"listeners": "SSL://127.0.0.1:0"}), "SSL")

    def test_an_unknown_key_is_only_warned_about(self, tmp_path: Path) -> None:
        with broker_process(tmp_path, {"num.partition": "3"}) as broker:
            assert is_served(broker.bootstrap_servers)
            (warning,) = [line for line in broker.output if "WARNING" in line]
            assert "num.partition" in warning

    def test_a_store_that_is_not_one(self, refusal: Refusal, tmp_path: Path) -> None:
        (tmp_path / "store.sqlite").write_bytes(b"this is no database" * 100)
        assert_one_sentence(refusal(tmp_path), "store.sqlite")

    def test_a_directory_of_another_cluster(self, refusal: Refusal, tmp_path: Path) -> None:
        with broker_process(tmp_path) as broker:
            broker.terminate()
        properties = tmp_path / "meta.properties"
        lines = properties.read_text().splitlines()
        changed = ["cluster.id=AAAAAAAAAAAAAAAAAAAAAA" if line.startswith("cluster.id=") else line for line in lines]
        properties.write_text("\n".join(changed) + "\n")
        assert_one_sentence(refusal(tmp_path), str(tmp_path), "cluster")


class TestEnd:
    def test_sigterm_is_a_clean_stop(self, tmp_path: Path) -> None:
        with broker_process(tmp_path) as broker:
            create_topic(broker.bootstrap_servers, "clicks")
            with WireClient(broker.bootstrap_servers) as client:
                produce(client, "clicks", batch(b"hello"))
                assert broker.terminate() == 0
            assert (tmp_path / CLEAN).exists()
            assert broker.output[-1].endswith("stopped cleanly (ottla.server)")
        with broker_process(tmp_path) as broker:
            assert not (tmp_path / CLEAN).exists(), "only a stopped broker is marked as clean"
            with WireClient(broker.bootstrap_servers) as client:
                assert b"hello" in fetch(client, "clicks")

    def test_a_killed_broker_is_soon_back_with_all_it_acknowledged(self, tmp_path: Path) -> None:
        """The session of the dead broker need not expire first: this would take longer than this test waits."""
        patient = {"zookeeper.session.timeout.ms": "3600000"}
        with broker_process(tmp_path, patient) as broker:
            create_topic(broker.bootstrap_servers, "clicks")
            with WireClient(broker.bootstrap_servers) as client:
                for number in range(200):
                    assert produce(client, "clicks", batch(b"record %d" % number)).base_offset == number
                broker.kill()
        with broker_process(tmp_path, patient) as broker, WireClient(broker.bootstrap_servers) as client:
            found = fetch(client, "clicks")
            assert all(b"record %d" % number in found for number in range(200))
            assert produce(client, "clicks", batch(b"more")).base_offset == 200

    def test_a_torn_tail_is_cut_at_the_last_whole_batch(self, tmp_path: Path) -> None:
        with broker_process(tmp_path) as broker:
            create_topic(broker.bootstrap_servers, "clicks")
            with WireClient(broker.bootstrap_servers) as client:
                produce(client, "clicks", batch(b"whole"))
                broker.kill()
        segment = tmp_path / "clicks-0" / "00000000000000000000.log"
        whole = segment.read_bytes()
        with segment.open("ab") as file:
            file.write(batch(b"torn")[:-5])
        with broker_process(tmp_path) as broker, WireClient(broker.bootstrap_servers) as client:
            assert fetch(client, "clicks") == whole
            assert produce(client, "clicks", batch(b"next")).base_offset == 1


class TestStoreIsGone:
    def test_topics_are_adopted_with_their_data(self, tmp_path: Path) -> None:
        with broker_process(tmp_path) as broker:
            create_topic(broker.bootstrap_servers, "clicks", partitions=3)
            topic_id = self.describe(broker.bootstrap_servers).topic_id
            with WireClient(broker.bootstrap_servers) as client:
                produce(client, "clicks", batch(b"hello"))
            broker.terminate()
        for file in tmp_path.glob("store.sqlite*"):
            file.unlink()
        with broker_process(tmp_path) as broker:
            topic = self.describe(broker.bootstrap_servers)
            assert topic.topic_id == topic_id
            assert len(topic.partitions) == 3
            with WireClient(broker.bootstrap_servers) as client:
                assert b"hello" in fetch(client, "clicks")
                assert produce(client, "clicks", batch(b"more")).base_offset == 1

    @staticmethod
    def describe(bootstrap_servers: str) -> MetadataResponseTopic:
        request = MetadataRequest(topics=[MetadataRequestTopic(name="clicks")], allow_auto_topic_creation=False)
        with WireClient(bootstrap_servers) as client:
            (topic,) = client.call(request, 12, MetadataResponse).topics
        assert topic.error_code == ErrorCode.NONE
        return topic


class TestFullDisk:
    def test_appends_are_refused_until_there_is_room(self, tmp_path: Path) -> None:
        value, acknowledged = bytes(200_000), 0
        with small_disk(tmp_path / "disk", "6m") as disk, broker_process(disk) as broker:
            ballast = disk / "ballast"
            ballast.write_bytes(bytes(3_000_000))
            create_topic(broker.bootstrap_servers, "clicks")
            with WireClient(broker.bootstrap_servers) as client:
                while (answer := produce(client, "clicks", batch(value))).error_code == ErrorCode.NONE:
                    acknowledged += 1
                    assert acknowledged < 100
                assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
                assert acknowledged > 0
                assert self.end_of(client, acknowledged) == acknowledged
                ballast.unlink()
                assert produce(client, "clicks", batch(value)).base_offset == acknowledged
                assert self.end_of(client, acknowledged + 1) == acknowledged + 1
            assert broker.terminate() == 0
            with broker_process(disk) as again, WireClient(again.bootstrap_servers) as client:
                assert self.end_of(client, acknowledged + 1) == acknowledged + 1

    def test_a_file_that_may_not_grow(self, tmp_path: Path) -> None:
        """The same with a limit of the process, for machines where no file system can be mounted."""
        value = bytes(200_000)
        with broker_process(tmp_path) as broker:
            create_topic(broker.bootstrap_servers, "clicks")
            with WireClient(broker.bootstrap_servers) as client:
                assert produce(client, "clicks", batch(value)).base_offset == 0
                broker.limit_file_size(300_000)
                assert produce(client, "clicks", batch(value)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
                assert self.end_of(client, 1) == 1
                broker.limit_file_size(2**62)
                assert produce(client, "clicks", batch(value)).base_offset == 1
                assert self.end_of(client, 2) == 2

    def test_a_topic_that_cannot_be_created_costs_nobody_else_anything(self, tmp_path: Path) -> None:
        with small_disk(tmp_path / "disk", "4m") as disk, broker_process(disk) as broker:
            create_topic(broker.bootstrap_servers, "clicks")
            with WireClient(broker.bootstrap_servers) as client:
                produce(client, "clicks", batch(b"hello"))
                ballast = disk / "ballast"
                fill(ballast)
                topic = CreatableTopic(name="more", num_partitions=10, replication_factor=1)
                request = CreateTopicsRequest(topics=[topic], timeout_ms=1000)
                refused = client.call(request, 4, CreateTopicsResponse).topics[0]
                assert refused.error_code != ErrorCode.NONE
                assert b"hello" in fetch(client, "clicks")
                ballast.unlink()
                assert client.call(request, 4, CreateTopicsResponse).topics[0].error_code == ErrorCode.NONE
                assert produce(client, "more", batch(b"hello")).error_code == ErrorCode.NONE

    def test_a_stop_while_the_disk_is_full(self, tmp_path: Path) -> None:
        """One sentence, and no clean-shutdown marker, so that the next start checks the logs."""
        with small_disk(tmp_path / "disk", "4m") as disk:
            ballast = disk / "ballast"
            with broker_process(disk) as broker:
                create_topic(broker.bootstrap_servers, "clicks")
                with WireClient(broker.bootstrap_servers) as client:
                    for _ in range(30):
                        assert produce(client, "clicks", batch(bytes(5000))).error_code == ErrorCode.NONE
                    stored = fetch(client, "clicks")
                fill(ballast)
                assert broker.terminate() == 1
                assert broker.output[-1].startswith("Ottla has stopped, but not cleanly: ")
                assert "Traceback (most recent call last):" not in broker.output
                assert not (disk / CLEAN).exists()
            ballast.unlink()
            with broker_process(disk) as broker, WireClient(broker.bootstrap_servers) as client:
                assert fetch(client, "clicks") == stored

    @staticmethod
    def end_of(client: WireClient, expected: int) -> int:
        """Number of readable records with offsets below `expected`."""
        count = 0
        while count < expected and len(fetch(client, "clicks", count)) > 200_000:
            count += 1
        return count


class TestDataOfApacheKafka:
    """The broker uses a directory of Apache Kafka unchanged."""

    @pytest.fixture
    def java(self) -> list[str]:
        jars, java = os.environ.get("KAFKA_JARS"), shutil.which("java")
        if not jars or not java:
            pytest.skip("KAFKA_JARS names no directory with Kafka's jars, or there is no Java")
        return [java, "-Xmx256m", "-cp", f"{jars}/*"]

    def test_topics_records_and_identity(self, java: list[str], tmp_path: Path) -> None:
        data, port = tmp_path / "data", free_port()
        properties = tmp_path / "server.properties"
        properties.write_text(kafka_properties(data, port, free_port()))
        tool = [*java, "kafka.tools.StorageTool", "format", "-c", str(properties), "-t", CLUSTER_ID]
        subprocess.run(tool, check=True, capture_output=True)
        with (tmp_path / "kafka.log").open("wb") as log:
            kafka = subprocess.Popen([*java, "kafka.Kafka", str(properties)], stdout=log, stderr=log)
        try:
            wait_until_served(f"127.0.0.1:{port}")
            create_topic(f"127.0.0.1:{port}", "clicks", partitions=2)
            with WireClient(f"127.0.0.1:{port}") as client:
                wait_until_led(client, "clicks", batch(b"record 0"))
                for number in range(1, 10):
                    assert produce(client, "clicks", batch(b"record %d" % number)).base_offset == number
                stored = fetch(client, "clicks")
            kafka.terminate()
            assert kafka.wait(TIMEOUT) in (0, 143)
        finally:
            kafka.kill()
            kafka.wait()
        with broker_process(data) as broker, WireClient(broker.bootstrap_servers) as client:
            assert fetch(client, "clicks") == stored
            assert produce(client, "clicks", batch(b"from Ottla")).base_offset == 10
            reply = client.call(MetadataRequest(topics=None), 9, MetadataResponse)
            assert reply.cluster_id == CLUSTER_ID
            assert [(topic.name, len(topic.partitions)) for topic in reply.topics] == [("clicks", 2)]


def kafka_properties(data: Path, port: int, controller_port: int) -> str:
    return f"""\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
offsets.topic.replication.factor=1
"""


def wait_until_served(bootstrap_servers: str) -> None:
    deadline = time.monotonic() + 240
    while True:
        try:
            if is_served(bootstrap_servers):
                return
        except (OSError, EOFError):
            assert time.monotonic() < deadline, "Apache Kafka did not start"
            time.sleep(0.1)


def wait_until_led(client: WireClient, topic: str, records: bytes) -> None:
    """Apache Kafka replies to CreateTopics before the topic can be written to."""
    deadline = time.monotonic() + TIMEOUT
    while produce(client, topic, records).error_code != ErrorCode.NONE:
        assert time.monotonic() < deadline, f"{topic} got no leader"
        time.sleep(0.05)
