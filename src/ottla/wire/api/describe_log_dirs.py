"""DescribeLogDirs: the log directories of a broker and the size of each partition in them (KIP-113).

v2 is flexible; v3 adds an error for the whole request; v4 the size of the volume (KIP-827); v5 whether the directory is
cordoned (KIP-1066).
"""

from ottla.wire.api import DESCRIBE_LOG_DIRS
from ottla.wire.schema import Request, Response, Struct, array, boolean, int16, int32, int64, string


class DescribableLogDirTopic(Struct):
    topic: str = string()
    partitions: list[int] = array(int32())


class DescribeLogDirsRequest(Request, api=DESCRIBE_LOG_DIRS):
    topics: list[DescribableLogDirTopic] | None = array(DescribableLogDirTopic, nullable_since=0)


class DescribeLogDirsPartition(Struct):
    partition_index: int = int32()
    partition_size: int = int64()
    offset_lag: int = int64()
    is_future_key: bool = boolean()


class DescribeLogDirsTopic(Struct):
    name: str = string()
    partitions: list[DescribeLogDirsPartition] = array(DescribeLogDirsPartition)


class DescribeLogDirsResult(Struct):
    error_code: int = int16()
    log_dir: str = string()
    topics: list[DescribeLogDirsTopic] = array(DescribeLogDirsTopic)
    total_bytes: int = int64(since=4, default=-1)
    usable_bytes: int = int64(since=4, default=-1)
    is_cordoned: bool = boolean(since=5)


class DescribeLogDirsResponse(Response, api=DESCRIBE_LOG_DIRS):
    throttle_time_ms: int = int32()
    error_code: int = int16(since=3)
    results: list[DescribeLogDirsResult] = array(DescribeLogDirsResult)
