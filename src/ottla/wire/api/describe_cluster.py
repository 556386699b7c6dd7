"""DescribeCluster: the brokers and the cluster's id (KIP-700).

v1 can ask for the controllers instead (KIP-919); v2 can include fenced brokers (KIP-1073).
"""

from ottla.wire.api import DESCRIBE_CLUSTER
from ottla.wire.schema import Request, Response, Struct, array, boolean, int8, int16, int32, string


class DescribeClusterRequest(Request, api=DESCRIBE_CLUSTER):
    include_cluster_authorized_operations: bool = boolean()
    endpoint_type: int = int8(since=1, default=1)
    include_fenced_brokers: bool = boolean(since=2)


class DescribeClusterBroker(Struct):
    broker_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable_since=0, default=None)
    is_fenced: bool = boolean(since=2)


class DescribeClusterResponse(Response, api=DESCRIBE_CLUSTER):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0, default=None)
    endpoint_type: int = int8(since=1, default=1)
    cluster_id: str = string()
    controller_id: int = int32(default=-1)
    brokers: list[DescribeClusterBroker] = array(DescribeClusterBroker)
    cluster_authorized_operations: int = int32(default=-(2**31))
