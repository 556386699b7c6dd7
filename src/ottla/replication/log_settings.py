"""The part of a topic's settings that its logs act on."""

from ottla.config.topic import TopicConfig
from ottla.log.config import LogConfig


def log_config(config: TopicConfig) -> LogConfig:
    return LogConfig(
        segment_bytes=config.segment_bytes,
        segment_ms=config.segment_ms,
        segment_jitter_ms=config.segment_jitter_ms,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        retention_ms=config.retention_ms,
        retention_bytes=config.retention_bytes,
        flush_messages=config.flush_messages,
        flush_ms=config.flush_ms,
        file_delete_delay_ms=config.file_delete_delay_ms,
        delete="delete" in config.cleanup_policy,
    )
