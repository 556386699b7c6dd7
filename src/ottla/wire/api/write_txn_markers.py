"""WriteTxnMarkers: a transaction coordinator asks the leaders to write a commit or abort marker to each partition.

v1 is flexible and the oldest version in Kafka 4; v2 has the transaction version, so that the leader knows which epochs
to reject (KIP-1228). Administrators use it to abort hanging transactions (KIP-664).
"""

from ottla.wire.api import WRITE_TXN_MARKERS
from ottla.wire.schema import Request, Response, Struct, array, boolean, int8, int16, int32, int64, string


class WritableTxnMarkerTopic(Struct):
    name: str = string()
    partition_indexes: list[int] = array(int32())


class WritableTxnMarker(Struct):
    producer_id: int = int64()
    producer_epoch: int = int16()
    transaction_result: bool = boolean()
    topics: list[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic)
    coordinator_epoch: int = int32()
    transaction_version: int = int8(since=2)


class WriteTxnMarkersRequest(Request, api=WRITE_TXN_MARKERS):
    markers: list[WritableTxnMarker] = array(WritableTxnMarker)


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: int = int32()
    error_code: int = int16()


class WritableTxnMarkerTopicResult(Struct):
    name: str = string()
    partitions: list[WritableTxnMarkerPartitionResult] = array(WritableTxnMarkerPartitionResult)


class WritableTxnMarkerResult(Struct):
    producer_id: int = int64()
    topics: list[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult)


class WriteTxnMarkersResponse(Response, api=WRITE_TXN_MARKERS):
    markers: list[WritableTxnMarkerResult] = array(WritableTxnMarkerResult)
