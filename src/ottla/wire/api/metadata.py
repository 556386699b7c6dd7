"""Metadata: the brokers of the cluster, and the leaders of partitions.

In v0 an empty list means all topics. From v1 on, null means all topics and an empty list none. v1 adds the controller
and racks, v2 the cluster id; v4 lets the client decide about auto-creation; v5 lists offline replicas (KIP-112); v7
adds leader epochs (KIP-320); v8 authorized operations (KIP-430), of which v11 moves the cluster's to DescribeCluster
(KIP-700); v9 is flexible; v10 returns topic ids (KIP-516) and v12 accepts them; v13 can tell the client to bootstrap
again (KIP-1102).
"""

from ottla.model import TopicId
from ottla.wire.api import METADATA
from ottla.wire.schema import Request, Response, Struct, array, boolean, int16, int32, string, uuid


class MetadataRequestTopic(Struct):
    topic_id: TopicId = uuid(since=10)
    name: str | None = string(nullable_since=10)


class MetadataRequest(Request, api=METADATA):
    topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, nullable_since=1)
    allow_auto_topic_creation: bool = boolean(since=4, default=True)
    include_cluster_authorized_operations: bool = boolean(since=8, until=10)
    include_topic_authorized_operations: bool = boolean(since=8)


class MetadataResponseBroker(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(since=1, nullable_since=0, default=None)


class MetadataResponsePartition(Struct):
    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(since=7, default=-1)
    replica_nodes: list[int] = array(int32())
    isr_nodes: list[int] = array(int32())
    offline_replicas: list[int] = array(int32(), since=5)


class MetadataResponseTopic(Struct):
    error_code: int = int16()
    name: str | None = string(nullable_since=12)
    topic_id: TopicId = uuid(since=10)
    is_internal: bool = boolean(since=1)
    partitions: list[MetadataResponsePartition] = array(MetadataResponsePartition)
    topic_authorized_operations: int = int32(since=8, default=-(2**31))


class MetadataResponse(Response, api=METADATA):
    throttle_time_ms: int = int32(since=3)
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker)
    cluster_id: str | None = string(since=2, nullable_since=0, default=None)
    controller_id: int = int32(since=1, default=-1)
    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic)
    cluster_authorized_operations: int = int32(since=8, until=10, default=-(2**31))
    error_code: int = int16(since=13)
