"""Messages encoded by hand, byte by byte, so that a mistake in both codecs is found."""

import pytest

from ottla.model import TopicId
from ottla.wire import codec, reference
from ottla.wire.api.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey
from ottla.wire.api.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from ottla.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from ottla.wire.api.group_records import GroupMetadataValue, MemberMetadata, OffsetCommitKey, OffsetCommitValue
from ottla.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.api.transaction_records import PartitionsSchema, TransactionLogKey, TransactionLogValue
from ottla.wire.schema import Message

GROUP = GroupMetadataValue(
    protocol_type="consumer",
    generation=4,
    protocol=None,
    leader="l",
    current_state_timestamp=5,
    members=[
        MemberMetadata(
            member_id="m",
            group_instance_id="i",
            client_id="c",
            client_host="/h",
            rebalance_timeout=6,
            session_timeout=8,
            subscription=b"\1\2",
            assignment=b"\3",
        )
    ],
)

TRANSACTION = TransactionLogValue(
    producer_id=1,
    previous_producer_id=1,
    producer_epoch=2,
    transaction_timeout_ms=3,
    transaction_status=1,
    transaction_partitions=[PartitionsSchema(topic="t", partition_ids=[4, 5])],
    transaction_last_update_timestamp_ms=6,
    transaction_start_timestamp_ms=7,
    client_transaction_version=2,
)

GOLDEN: list[tuple[Message, int, str]] = [
    (ApiVersionsRequest(), 0, ""),
    (
        ApiVersionsRequest(client_software_name="ottla", client_software_version="1"),
        3,
        "06 6f74746c61"  # compact length 5 + 1
        "02 31"
        "00",  # no tagged fields
    ),
    (
        ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(api_key=18, max_version=4)]),
        0,
        "0023"
        "00000001"
        "0012 0000 0004",
    ),
    (
        ApiVersionsResponse(
            api_keys=[ApiVersion(api_key=3, max_version=13)],
            finalized_features_epoch=5,
            finalized_features=[FinalizedFeatureKey(name="f", max_version_level=2, min_version_level=1)],
        ),
        3,
        "0000"
        "02  0003 0000 000d 00"
        "00000000"
        "02"  # two tagged fields
        "01 08 0000000000000005"
        "02 08 02 0266 0002 0001 00",
    ),
    (MetadataRequest(topics=None), 1, "ffffffff"),
    (MetadataRequest(topics=[]), 1, "00000000"),
    (MetadataRequest(topics=None), 9, "00 01 00 00 00"),
    (
        MetadataRequest(topics=[MetadataRequestTopic(topic_id=TopicId(bytes(range(16))), name=None)]),
        12,
        "02"
        "000102030405060708090a0b0c0d0e0f 00 00"
        "01 00 00",
    ),
    (
        ProduceRequest(
            acks=-1,
            timeout_ms=30_000,
            topic_data=[
                TopicProduceData(name="t", partition_data=[PartitionProduceData(index=1, records=b"\xab\xcd")])
            ],
        ),
        3,
        "ffff ffff 00007530"
        "00000001 0001 74"
        "00000001 00000001 00000002 abcd",
    ),
    (
        ProduceRequest(
            acks=1,
            timeout_ms=30_000,
            topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(index=1, records=bytes(200))])],
        ),
        9,
        "00 0001 00007530"
        "02 02 74"
        "02 00000001 c901" + "00" * 200 + "00"  # 201 as a varint
        "00"
        "00",
    ),
    (
        FetchRequest(
            replica_state=ReplicaState(replica_id=2, replica_epoch=9),
            max_wait_ms=500,
            min_bytes=1,
            topics=[
                FetchTopic(
                    topic_id=TopicId(b"\x11" * 16),
                    partitions=[FetchPartition(partition=3, fetch_offset=10, partition_max_bytes=64, high_watermark=8)],
                )
            ],
        ),
        18,
        "000001f4 00000001 7fffffff 00 00000000 ffffffff"
        "02 11111111111111111111111111111111"
        "02 00000003 ffffffff 000000000000000a ffffffff ffffffffffffffff 00000040"
        "01 01 08 0000000000000008"  # tagged: the high watermark
        "00"
        "01"  # no forgotten topics
        "01"  # empty rack
        "01 01 0d 00000002 0000000000000009 00",  # tagged: the replica state
    ),
    (
        DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name="t")], cursor=Cursor(topic_name="t", partition_index=6)
        ),
        0,
        "02 0274 00"
        "000007d0"
        "01 0274 00000006 00"  # a nullable struct that is present
        "00",
    ),
    (DescribeTopicPartitionsRequest(), 0, "01 000007d0 ff 00"),
    (OffsetCommitKey(group="g", topic="t", partition=2), 1, "0001 67 0001 74 00000002"),
    (
        OffsetCommitValue(offset=7, leader_epoch=1, commit_timestamp=3),
        3,
        "0000000000000007 00000001 0000 0000000000000003",
    ),
    (
        OffsetCommitValue(
            offset=7, leader_epoch=3, metadata="mé", commit_timestamp=9, topic_id=TopicId(b"\x22" * 16)
        ),
        4,
        "0000000000000007 00000003 04 6dc3a9 0000000000000009"
        "01 00 10 22222222222222222222222222222222",  # tagged: the topic id
    ),
    (
        GROUP,
        3,
        "0008 636f6e73756d6572 00000004 ffff 0001 6c 0000000000000005"
        "00000001"
        "0001 6d 0001 69 0001 63 0002 2f68 00000006 00000008 00000002 0102 00000001 03",
    ),
    (
        GROUP,
        4,
        "09 636f6e73756d6572 00000004 00 02 6c 0000000000000005"
        "02"
        "02 6d 02 69 02 63 03 2f68 00000006 00000008 03 0102 02 03 00"
        "00",
    ),
    (TransactionLogKey(transactional_id="id"), 0, "0002 6964"),
    (
        TransactionLogValue(producer_id=1, producer_epoch=2, transaction_partitions=None),
        0,
        "0000000000000001 0002 00000000 00 ffffffff 0000000000000000 0000000000000000",
    ),
    (
        TRANSACTION,
        1,
        "0000000000000001 0002 00000003 01"
        "02 02 74 03 00000004 00000005 00"
        "0000000000000006 0000000000000007"
        "02"  # two tagged fields: the previous producer id and the client's transaction protocol
        "00 08 0000000000000001"
        "02 02 0002",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    "message, version, text", GOLDEN, ids=[f"{type(message).__name__}-v{version}" for message, version, _ in GOLDEN]
)
def test_golden_bytes(message: Message, version: int, text: str) -> None:
    golden = bytes.fromhex(text)
    for module in (codec, reference):
        assert module.encode(message, version) == golden
        assert module.decode(type(message), golden, version) == (message, len(golden))
