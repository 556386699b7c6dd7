"""The resources that clients can use: memory, file descriptors, and the time of other clients."""

import resource
import socket
import struct
import time
from collections.abc import Callable, Iterator

import pytest

from ottla.errors import ErrorCode
from ottla.records.compression import compress
from ottla.records.format import Codec
from ottla.wire.api.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.api.metadata import MetadataRequest, MetadataResponse
from tests.records.samples import three_records, with_payload
from tests.server.broker_process import TIMEOUT, BrokerProcess, broker_process
from tests.server.wire_client import (
    FETCH_VERSION,
    WireClient,
    batch,
    create_topic,
    encode_request,
    fetch_request,
    is_served,
    produce,
)

MEGABYTE = 1 << 20


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with broker_process(tmp_path_factory.mktemp("broker") / "data") as process:
        create_topic(process.bootstrap_servers, "clicks")
        with WireClient(process.bootstrap_servers) as client:
            for _ in range(8):
                assert produce(client, "clicks", batch(bytes(500_000))).error_code == 0
            topic = CreatableTopic(name="wide", num_partitions=1000, replication_factor=1)
            client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 4, CreateTopicsResponse)
            client.call(MetadataRequest(topics=None), 1, MetadataResponse)
        yield process


def eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def send_until_refused(client: WireClient, data: bytes) -> None:
    """Send until the broker stops reading and the kernel's buffers are full, or all is sent."""
    client.socket.settimeout(0.3)
    try:
        client.socket.sendall(data)
    except TimeoutError:
        pass
    finally:
        client.socket.settimeout(TIMEOUT)


@pytest.mark.parametrize(
    "asked",
    [encode_request(fetch_request("clicks"), FETCH_VERSION, 0), encode_request(MetadataRequest(topics=None), 1, 0)],
    ids=["fetch", "metadata"],
)
def test_clients_that_never_read(asked: bytes, process: BrokerProcess) -> None:
    """Megabytes of requests whose replies the client does not read: gigabytes, if the broker stored them."""
    before = process.memory()
    clients = [WireClient(process.bootstrap_servers) for _ in range(5)]
    try:
        for client in clients:
            send_until_refused(client, asked * 20_000)
            assert is_served(process.bootstrap_servers)
        assert process.memory() < before + 40 * MEGABYTE
    finally:
        for client in clients:
            client.close()
    assert is_served(process.bootstrap_servers)


def test_claims_of_large_frames(process: BrokerProcess) -> None:
    """Two hundred clients announce a hundred megabytes each, and send a thousand bytes."""
    before = process.memory()
    clients = [WireClient(process.bootstrap_servers) for _ in range(200)]
    try:
        for client in clients:
            client.socket.sendall(struct.pack(">i", 100 * MEGABYTE) + bytes(1000))
        assert is_served(process.bootstrap_servers)
        assert process.memory() < before + 30 * MEGABYTE
    finally:
        for client in clients:
            client.close()


def test_ten_thousand_connections_opened_and_dropped(process: BrokerProcess) -> None:
    files, memory = process.open_files(), process.memory()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    host, _, port = process.bootstrap_servers.rpartition(":")
    try:
        for _ in range(20):
            clients = [socket.create_connection((host, int(port)), TIMEOUT) for _ in range(500)]
            for number, client in enumerate(clients):
                if number % 2:
                    client.sendall(b"\0\0\1")
                if number % 4 == 0:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                client.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert is_served(process.bootstrap_servers)
    assert eventually(lambda: process.open_files() <= files)
    assert process.memory() < memory + 15 * MEGABYTE


def test_clients_that_send_one_byte_at_a_time(process: BrokerProcess) -> None:
    """Slow clients do not delay others, and get their reply in the end."""
    clients = [WireClient(process.bootstrap_servers) for _ in range(100)]
    try:
        frames = [client.frame(MetadataRequest(topics=[]), 1) for client in clients]
        for position in range(len(frames[0])):
            for client, data in zip(clients, frames, strict=True):
                client.socket.sendall(data[position : position + 1])
            assert is_served(process.bootstrap_servers)
        for client in clients:
            assert client.receive(MetadataResponse, 1).topics == []
    finally:
        for client in clients:
            client.close()


def test_records_that_expand_to_half_a_gigabyte(process: BrokerProcess) -> None:
    """A compacted topic opens batches, but only up to the size limit."""
    compacted = [CreatableTopicConfig(name="cleanup.policy", value="compact")]
    topic = CreatableTopic(name="compacted", num_partitions=1, replication_factor=1, configs=compacted)
    bomb = with_payload(three_records(Codec.ZSTD), compress(Codec.ZSTD, bytes(512 * MEGABYTE)))
    before = process.memory()
    with WireClient(process.bootstrap_servers) as client:
        client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 4, CreateTopicsResponse)
        answer = produce(client, "compacted", bytes(bomb))
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
    # The thread that opened the batch frees its memory shortly after the answer.
    assert eventually(lambda: process.memory() < before + 50 * MEGABYTE)


def test_one_client_with_much_to_do_does_not_hold_up_the_others(process: BrokerProcess) -> None:
    """A client that requests large replies, and reads them, does not starve others.

    Another process can hold up a round, so one of several rounds is enough. A broker that serves one client after the
    other fails in every round.
    """
    assert any(_is_served_meanwhile(process) for _ in range(5))


def _is_served_meanwhile(process: BrokerProcess) -> bool:
    count = 300
    with WireClient(process.bootstrap_servers) as busy:
        busy.socket.sendall(b"".join(busy.frame(MetadataRequest(topics=None), 1) for _ in range(count)))
        started = time.monotonic()
        assert is_served(process.bootstrap_servers)
        waited = time.monotonic() - started
        for _ in range(count):
            busy.receive(MetadataResponse, 1)
        return waited < (time.monotonic() - started) / 3
