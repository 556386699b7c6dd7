"""What both brokers hold before the first case: topics, records, committed offsets, an open transaction."""

from functools import partial

from ottla.errors import ErrorCode
from ottla.records.builder import NewRecord, build_batch
from ottla.wire.api.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.wire.api.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.api.fetch import FetchResponse
from ottla.wire.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.api.metadata import MetadataRequest, MetadataResponse
from ottla.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.api.produce import ProduceResponse
from tests.compat.deadlines import eventually
from tests.server.wire_client import FETCH_VERSION, WireClient, fetch_request, produce, produce_request, response_of

TIME = 1_700_000_000_000
"""Of the first record; each of the next ones is a second younger."""
EVENTS = 5
"""Records in the first partition of `events`."""

_KEPT = {"retention.ms": "-1"}
"""Records with a fixed time are soon too old for the default."""
TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    "events": (2, _KEPT),
    "empty": (1, {}),
    "grown": (2, {}),
    "doomed": (1, {}),
    "doomed-by-id": (1, {}),
    "cut": (1, _KEPT),
    "written": (1, _KEPT),
    "compacted": (1, {"cleanup.policy": "compact"}),
    "small": (1, {"max.message.bytes": "200"}),
    "configured": (1, {"retention.ms": "1000000", "cleanup.policy": "delete"}),
    "open-transaction": (1, _KEPT),
    "moved": (1, {}),
    "a_b": (1, {}),
}


def record(text: str, second: int = 0) -> bytes:
    """A batch of one record with a fixed time."""
    return bytes(build_batch([NewRecord(b"key", text.encode(), timestamp=TIME + 1000 * second)]))


def set_up(bootstrap: str) -> None:
    with WireClient(bootstrap) as client:
        _create_topics(client)
        for name, count in (("events", EVENTS), ("cut", 3)):
            for number in range(count):
                _write(client, name, record(f"event {number}", number))
        for name in TOPICS:
            eventually(partial(_is_ready, client, name))
        for key_type in (0, 1):
            eventually(partial(_has_coordinator, bootstrap, key_type))
        eventually(lambda: _commit(client))
        _open_transaction(client)


def _create_topics(client: WireClient) -> None:
    topics = [
        CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        for name, (partitions, configs) in TOPICS.items()
    ]
    reply = client.call(CreateTopicsRequest(topics=topics), 4, CreateTopicsResponse)
    assert all(topic.error_code == ErrorCode.NONE for topic in reply.topics)
    eventually(lambda: _all_are_led(client))


def _all_are_led(client: WireClient) -> bool:
    reply = client.call(MetadataRequest(topics=None), 9, MetadataResponse)
    led = {topic.name for topic in reply.topics if all(it.leader_id == 1 for it in topic.partitions)}
    return led >= TOPICS.keys()


def _write(client: WireClient, topic: str, records: bytes) -> None:
    """Apache Kafka names a leader in Metadata before that leader accepts records."""
    eventually(lambda: produce(client, topic, records).error_code == ErrorCode.NONE)


def _is_ready(client: WireClient, topic: str) -> bool:
    reply = client.call(fetch_request(topic, min_bytes=0), FETCH_VERSION, FetchResponse)
    return reply.responses[0].partitions[0].error_code == ErrorCode.NONE


def _has_coordinator(bootstrap: str, key_type: int) -> bool:
    """Apache Kafka that has just started may close the connection instead of answering."""
    request = FindCoordinatorRequest(key="known", key_type=key_type)
    try:
        with WireClient(bootstrap) as client:
            return client.call(request, 2, FindCoordinatorResponse).error_code == ErrorCode.NONE
    except (EOFError, ConnectionError):
        return False


def _commit(client: WireClient) -> bool:
    """Offsets of a group without members."""
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=3, committed_metadata="three")
    topics = [OffsetCommitRequestTopic(name="events", partitions=[partition])]
    codes = [
        client.call(OffsetCommitRequest(group_id=group, topics=topics), 6, OffsetCommitResponse)
        .topics[0]
        .partitions[0]
        .error_code
        for group in ("known", "doomed-group", "doomed-offsets")
    ]
    return codes == [ErrorCode.NONE] * 3


def _open_transaction(client: WireClient) -> None:
    def begun() -> InitProducerIdResponse | None:
        request = InitProducerIdRequest(transactional_id="open", transaction_timeout_ms=600_000)
        reply = client.call(request, 4, InitProducerIdResponse)
        return reply if reply.error_code == ErrorCode.NONE else None

    producer = eventually(begun)
    assert producer is not None
    added = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="open",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="open-transaction", partitions=[0])],
    )
    client.call(added, 3, response_of(added))
    batch = build_batch(
        [NewRecord(None, b"pending", timestamp=TIME)],
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=0,
        transactional=True,
    )
    written = produce_request("open-transaction", bytes(batch), acks=-1)
    written.transactional_id = "open"
    reply = client.call(written, 8, ProduceResponse)
    assert reply.responses[0].partition_responses[0].error_code == ErrorCode.NONE
