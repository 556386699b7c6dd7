"""The topic settings that a log needs."""

from ottla.config.topic import TopicConfig
from ottla.log.config import LogConfig


def log_config(config: TopicConfig) -> LogConfig:
    return LogConfig(
        segment_bytes=config.segment_bytes,
        segment_ms=_segment_ms(config),
        segment_jitter_ms=config.segment_jitter_ms,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        retention_ms=config.retention_ms,
        retention_bytes=config.retention_bytes,
        flush_messages=config.flush_messages,
        flush_ms=config.flush_ms,
        file_delete_delay_ms=config.file_delete_delay_ms,
        delete="delete" in config.cleanup_policy,
        compact=config.compacted,
        min_cleanable_dirty_ratio=config.min_cleanable_dirty_ratio,
        min_compaction_lag_ms=config.min_compaction_lag_ms,
        max_compaction_lag_ms=config.max_compaction_lag_ms,
        delete_retention_ms=config.delete_retention_ms,
    )


def _segment_ms(config: TopicConfig) -> int:
    """The active segment is never compacted, so it must roll within `max.compaction.lag.ms`."""
    return min(config.segment_ms, config.max_compaction_lag_ms) if config.compacted else config.segment_ms
