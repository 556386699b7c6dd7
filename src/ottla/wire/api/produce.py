"""Produce: append record batches to partitions.

v3 has record batches of format 2 and a transactional id (KIP-98); v5 returns the log start offset; v7 allows zstd
(KIP-110); v8 lists the rejected records (KIP-467); v9 is flexible; v10 returns the new leader (KIP-951); v11 and v12
support transaction protocol 2 (KIP-890); v13 names topics by id (KIP-516).
"""

from ottla.model import TopicId
from ottla.wire.api import PRODUCE
from ottla.wire.schema import (
    Request,
    Response,
    Struct,
    array,
    int16,
    int32,
    int64,
    record_batches,
    string,
    struct,
    uuid,
)


class PartitionProduceData(Struct):
    index: int = int32()
    records: memoryview | bytes | None = record_batches()


class TopicProduceData(Struct):
    name: str = string(until=12)
    topic_id: TopicId = uuid(since=13)
    partition_data: list[PartitionProduceData] = array(PartitionProduceData)


class ProduceRequest(Request, api=PRODUCE):
    transactional_id: str | None = string(nullable_since=0, default=None)
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: list[TopicProduceData] = array(TopicProduceData)


class BatchIndexAndErrorMessage(Struct):
    batch_index: int = int32()
    batch_index_error_message: str | None = string(nullable_since=0, default=None)


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


class PartitionProduceResponse(Struct):
    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64(default=-1)
    log_start_offset: int = int64(since=5, default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = array(BatchIndexAndErrorMessage, since=8)
    error_message: str | None = string(since=8, nullable_since=0, default=None)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, since=10, tag=0)


class TopicProduceResponse(Struct):
    name: str = string(until=12)
    topic_id: TopicId = uuid(since=13)
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse)


class NodeEndpoint(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable_since=0, default=None)


class ProduceResponse(Response, api=PRODUCE):
    responses: list[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32()
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, since=10, tag=0)
