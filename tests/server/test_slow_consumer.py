"""A slow consumer gets correct data, whatever happens to the topic meanwhile."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
from ottla import EmbeddedBroker
from ottla.errors import ErrorCode
from ottla.wire.api.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.api.fetch import FetchRequest, FetchResponse
from tests.server.wire_client import FETCH_VERSION, WireClient, batch, create_topic, fetch_request, produce

SETTINGS = {"log.segment.bytes": "4194304", "log.segment.delete.delay.ms": "0"}
RECORDS = [batch(bytes([number]) * 900_000) for number in range(40)]


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with ottla.embedded(SETTINGS) as broker:
        create_topic(broker.bootstrap_servers, "clicks")
        with WireClient(broker.bootstrap_servers) as client:
            for records in RECORDS:
                assert produce(client, "clicks", records).error_code == ErrorCode.NONE
        yield broker


def whole_topic(offset: int) -> FetchRequest:
    request = fetch_request("clicks", offset)
    request.max_bytes = request.topics[0].partitions[0].partition_max_bytes = 1 << 26
    return request


def ask_for_everything(client: WireClient) -> None:
    """One request for each batch: far more than the kernel and the broker buffer for one client."""
    for offset in range(len(RECORDS)):
        client.send(whole_topic(offset), FETCH_VERSION)


def wait_for_removal(directory: Path, name: str) -> None:
    deadline = time.monotonic() + 60
    while list(directory.glob(f"{name}/*")):
        assert time.monotonic() < deadline, "the files were not removed"
        time.sleep(0.01)


def test_the_topic_is_deleted(broker: EmbeddedBroker) -> None:
    with WireClient(broker.bootstrap_servers) as slow, WireClient(broker.bootstrap_servers) as admin:
        ask_for_everything(slow)
        first = slow.receive(FetchResponse, FETCH_VERSION)
        reply = admin.call(DeleteTopicsRequest(topic_names=["clicks"], timeout_ms=1000), 3, DeleteTopicsResponse)
        assert reply.responses[0].error_code == ErrorCode.NONE
        wait_for_removal(broker.data_dir, "clicks-0*")
        assert_right(first, 0)
        codes = [assert_right(slow.receive(FetchResponse, FETCH_VERSION), o) for o in range(1, len(RECORDS))]
        assert codes == sorted(codes), "what was promised before the deletion comes first"
        assert codes[0] == ErrorCode.NONE
        assert codes[-1] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_records_are_deleted(broker: EmbeddedBroker) -> None:
    everything = DeleteRecordsTopic(name="clicks", partitions=[DeleteRecordsPartition(partition_index=0, offset=-1)])
    with WireClient(broker.bootstrap_servers) as slow, WireClient(broker.bootstrap_servers) as admin:
        ask_for_everything(slow)
        first = slow.receive(FetchResponse, FETCH_VERSION)
        reply = admin.call(DeleteRecordsRequest(topics=[everything], timeout_ms=1000), 1, DeleteRecordsResponse)
        assert reply.topics[0].partitions[0].low_watermark == len(RECORDS)
        assert_right(first, 0)
        codes = [assert_right(slow.receive(FetchResponse, FETCH_VERSION), o) for o in range(1, len(RECORDS))]
        assert set(codes) == {ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE}


def assert_right(reply: FetchResponse, offset: int) -> ErrorCode:
    """Either only an error, or exactly the bytes that were produced at this offset."""
    data = reply.responses[0].partitions[0]
    records = memoryview(bytes(data.records))  # type: ignore[call-overload]
    if data.error_code:
        assert not records
    else:
        sent = RECORDS[offset]
        assert int.from_bytes(records[:8]) == offset
        assert records[16 : len(sent)] == sent[16:]
    return ErrorCode(data.error_code)
