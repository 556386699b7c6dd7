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
"""The boot id of the machine at the last start of the broker. Kafka does not write this file and ignores it."""

DELETED_DIRECTORY_SUFFIX = "-delete"
FUTURE_DIRECTORY_SUFFIX = "-future"
_KRAFT_METADATA = "__cluster_metadata"
"""Kafka's log of cluster metadata, which may be among the partitions. It is not a topic, and Ottla never opens it."""

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
    """`clicks-3` is partition 3 of `clicks`. A topic name may contain dashes. None for any other name."""
    topic, _, partition = name.rpartition("-")
    if not topic or topic == _KRAFT_METADATA or not partition.isdecimal() or str(int(partition)) != partition:
        return None
    return TopicPartition(topic, int(partition))


def deleted_directory_name(topic_partition: TopicPartition, unique: bytes) -> str:
    """The name of a deleted partition's directory until its files are removed.

    The unique part is needed because a topic of the same name may be created and deleted again before that. A long
    topic name is cut, because file systems allow 255 bytes.
    """
    suffix = f"-{topic_partition.partition}.{unique.hex()}{DELETED_DIRECTORY_SUFFIX}"
    return topic_partition.topic[: _MAX_NAME - len(suffix)] + suffix


def future_directory_name(topic_partition: TopicPartition, unique: bytes) -> str:
    """The name of a partition's directory while the partition is copied from another log directory (KIP-113)."""
    return f"{topic_partition}.{unique.hex()}{FUTURE_DIRECTORY_SUFFIX}"


def parse_future_directory(name: str) -> TopicPartition | None:
    return parse_partition_directory(name.removesuffix(FUTURE_DIRECTORY_SUFFIX).rpartition(".")[0])


def can_be_moved(topic_partition: TopicPartition) -> bool:
    """Whether the temporary directory name of a move is short enough for a file system."""
    return len(future_directory_name(topic_partition, bytes(16))) <= _MAX_NAME
