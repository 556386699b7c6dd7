"""The names of Kafka's files and directories. `docs/formats/log-directory.md` has the picture."""

from ottla.model import TopicPartition

LOG_SUFFIX = ".log"
OFFSET_INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
INDEX_SUFFIXES = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
SEGMENT_SUFFIXES = (LOG_SUFFIX, *INDEX_SUFFIXES)

LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"

META_PROPERTIES = "meta.properties"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANED_OFFSETS = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LOCK = ".lock"
BOOT_ID = ".ottla_boot_id"
"""Of the machine when the broker was started, which Kafka does not write and does not mind."""

DELETED_DIRECTORY_SUFFIX = "-delete"
FUTURE_DIRECTORY_SUFFIX = "-future"
_KRAFT_METADATA = "__cluster_metadata"
"""Kafka's own log of the cluster's metadata, which may lie among the partitions. It is no topic, and never ours."""

_MAX_NAME = 255
_OFFSET_DIGITS = 20


def segment_path(directory: str, base_offset: int, suffix: str) -> str:
    return f"{directory}/{base_offset:0{_OFFSET_DIGITS}d}{suffix}"


def parse_offset(name: str, suffix: str) -> int | None:
    """The offset in a file name such as `00000000000000000042.log`; None for a file of another kind."""
    stem = name.removesuffix(suffix)
    if len(stem) + len(suffix) != len(name) or len(stem) != _OFFSET_DIGITS or not stem.isdecimal():
        return None
    return int(stem)


def parse_partition_directory(name: str) -> TopicPartition | None:
    """`clicks-3` is partition 3 of `clicks`; a topic's own name may contain dashes. None for any other name."""
    topic, _, partition = name.rpartition("-")
    if not topic or topic == _KRAFT_METADATA or not partition.isdecimal() or str(int(partition)) != partition:
        return None
    return TopicPartition(topic, int(partition))


def deleted_directory_name(topic_partition: TopicPartition, unique: bytes) -> str:
    """What a partition's directory is called from its deletion until its files are gone.

    The unique part lets a topic of the same name be created and deleted again meanwhile. A long topic name is cut,
    because file systems allow 255 bytes.
    """
    suffix = f"-{topic_partition.partition}.{unique.hex()}{DELETED_DIRECTORY_SUFFIX}"
    return topic_partition.topic[: _MAX_NAME - len(suffix)] + suffix


def future_directory_name(topic_partition: TopicPartition, unique: bytes) -> str:
    """What a partition's directory is called while it is copied there from another log directory (KIP-113)."""
    return f"{topic_partition}.{unique.hex()}{FUTURE_DIRECTORY_SUFFIX}"


def parse_future_directory(name: str) -> TopicPartition | None:
    return parse_partition_directory(name.removesuffix(FUTURE_DIRECTORY_SUFFIX).rpartition(".")[0])


def can_be_moved(topic_partition: TopicPartition) -> bool:
    """Whether a file system allows the name that the partition would have for a while."""
    return len(future_directory_name(topic_partition, bytes(16))) <= _MAX_NAME
