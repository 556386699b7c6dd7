"""The settings in effect for one topic, as plain attributes for speed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.config.broker import BrokerConfig
from ottla.config.definition import ConfigError, UnknownKeyError, Value
from ottla.config.keys import TOPIC_KEYS
from ottla.config.values import parse, usable

if TYPE_CHECKING:
    from collections.abc import Mapping


NEVER_FLUSH = 1 << 53
"""A `flush.ms` or `flush.messages` of at least this value means never. The default is the largest 64-bit number."""


class TopicConfig:
    """Immutable. Every attribute is a topic key with `_` for `.`, except the derived ones at the end."""

    __slots__ = (
        "cleanup_policy",
        "compacted",
        "compression_gzip_level",
        "compression_lz4_level",
        "compression_type",
        "compression_zstd_level",
        "delete_retention_ms",
        "file_delete_delay_ms",
        "flush_before_visible",
        "flush_messages",
        "flush_ms",
        "follower_replication_throttled_replicas",
        "index_interval_bytes",
        "largest_batch",
        "leader_replication_throttled_replicas",
        "local_retention_bytes",
        "local_retention_ms",
        "log_append_time",
        "max_compaction_lag_ms",
        "max_message_bytes",
        "message_timestamp_after_max_ms",
        "message_timestamp_before_max_ms",
        "message_timestamp_type",
        "min_cleanable_dirty_ratio",
        "min_compaction_lag_ms",
        "min_insync_replicas",
        "never_syncs",
        "preallocate",
        "remote_log_copy_disable",
        "remote_log_delete_on_disable",
        "remote_storage_enable",
        "retention_bytes",
        "retention_ms",
        "segment_bytes",
        "segment_index_bytes",
        "segment_jitter_ms",
        "segment_ms",
        "syncs_before_visible",
        "takes_batches_as_they_are",
        "unclean_leader_election_enable",
    )

    def __init__(self, values: Mapping[str, Value | None]) -> None:
        def integer(name: str) -> int:
            value = values[name]
            assert isinstance(value, int)
            return value

        self.segment_bytes = integer("segment.bytes")
        self.segment_ms = integer("segment.ms")
        self.segment_jitter_ms = integer("segment.jitter.ms")
        self.segment_index_bytes = integer("segment.index.bytes")
        self.index_interval_bytes = integer("index.interval.bytes")
        self.retention_ms = integer("retention.ms")
        self.retention_bytes = integer("retention.bytes")
        self.flush_messages = integer("flush.messages")
        self.flush_ms = integer("flush.ms")
        self.flush_before_visible = values["flush.before.visible"] is True
        self.file_delete_delay_ms = integer("file.delete.delay.ms")
        self.preallocate = values["preallocate"] is True

        self.max_message_bytes = integer("max.message.bytes")
        self.compression_type = str(values["compression.type"])
        self.compression_gzip_level = integer("compression.gzip.level")
        self.compression_lz4_level = integer("compression.lz4.level")
        self.compression_zstd_level = integer("compression.zstd.level")
        self.message_timestamp_type = str(values["message.timestamp.type"])
        self.message_timestamp_before_max_ms = integer("message.timestamp.before.max.ms")
        self.message_timestamp_after_max_ms = integer("message.timestamp.after.max.ms")

        self.cleanup_policy = frozenset(_list(values, "cleanup.policy"))
        self.delete_retention_ms = integer("delete.retention.ms")
        self.min_compaction_lag_ms = integer("min.compaction.lag.ms")
        self.max_compaction_lag_ms = integer("max.compaction.lag.ms")
        ratio = values["min.cleanable.dirty.ratio"]
        assert isinstance(ratio, float)
        self.min_cleanable_dirty_ratio = ratio

        self.min_insync_replicas = integer("min.insync.replicas")
        self.unclean_leader_election_enable = values["unclean.leader.election.enable"] is True
        self.leader_replication_throttled_replicas = _list(values, "leader.replication.throttled.replicas")
        self.follower_replication_throttled_replicas = _list(values, "follower.replication.throttled.replicas")
        self.remote_storage_enable = values["remote.storage.enable"] is True
        self.remote_log_copy_disable = values["remote.log.copy.disable"] is True
        self.remote_log_delete_on_disable = values["remote.log.delete.on.disable"] is True
        self.local_retention_ms = integer("local.retention.ms")
        self.local_retention_bytes = integer("local.retention.bytes")

        if values["internal.segment.bytes"] is not None:
            self.segment_bytes = integer("internal.segment.bytes")
        self.compacted = "compact" in self.cleanup_policy
        self.log_append_time = self.message_timestamp_type == "LogAppendTime"
        self.syncs_before_visible = self.flush_messages == 1 or self.flush_before_visible
        self.never_syncs = (
            self.flush_messages >= NEVER_FLUSH and self.flush_ms >= NEVER_FLUSH and not self.flush_before_visible
        )
        self.largest_batch = min(self.max_message_bytes, self.segment_bytes)
        self.takes_batches_as_they_are = (
            not self.compacted and not self.log_append_time and self.compression_type == "producer"
        )


def topic_config(broker: BrokerConfig, overrides: Mapping[str, str]) -> TopicConfig:
    """The settings in effect for a topic with these overrides. Ignores invalid overrides."""
    return TopicConfig(topic_values(broker, overrides))


def checked_topic_config(broker: BrokerConfig, overrides: Mapping[str, str]) -> TopicConfig:
    """Like `topic_config`, but raises ConfigError for an invalid override. Its default could delete records."""
    for problem in unusable_topic_overrides(overrides):
        raise problem
    return topic_config(broker, overrides)


def topic_values(broker: BrokerConfig, overrides: Mapping[str, str]) -> dict[str, Value | None]:
    """Every topic key with its value. Ignores unknown and invalid overrides."""
    own, _ = usable(TOPIC_KEYS, overrides)
    values: dict[str, Value | None] = {}
    for name, key in TOPIC_KEYS.items():
        if name in own:
            values[name] = own[name]
        elif key.server_key is not None:
            values[name] = broker.get(key.server_key)
        else:
            values[name] = None if key.default is None else parse(key, key.default)
    return values


def unusable_topic_overrides(overrides: Mapping[str, str]) -> list[ConfigError]:
    """The errors of invalid overrides."""
    return usable(TOPIC_KEYS, overrides)[1]


def validate_topic_overrides(overrides: Mapping[str, str], broker: BrokerConfig | None = None) -> None:
    """Raise ConfigError for an unknown name, an invalid value, or values that contradict each other.

    Without the broker's config, the defaults are used.
    """
    for name in overrides:
        if name not in TOPIC_KEYS:
            raise UnknownKeyError("topic", name)
    for problem in unusable_topic_overrides(overrides):
        raise problem
    broker = broker or BrokerConfig()
    config = topic_config(broker, overrides)
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        raise ConfigError(
            "min.compaction.lag.ms",
            config.min_compaction_lag_ms,
            f"it must not be above max.compaction.lag.ms, which is {config.max_compaction_lag_ms}",
        )
    if config.remote_storage_enable:
        raise ConfigError("remote.storage.enable", "true", "Ottla has no tiered storage")


def _list(values: Mapping[str, Value | None], name: str) -> tuple[str, ...]:
    value = values[name]
    assert isinstance(value, tuple)
    return value
