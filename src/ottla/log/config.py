"""The topic settings of a log. The caller passes them when it opens the log, and may replace them later."""

from dataclasses import dataclass

NO_LIMIT = -1
_DAY_MS = 24 * 60 * 60 * 1000
_WEEK_MS = 7 * _DAY_MS
_NEVER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Names and defaults are those of Kafka's topic configuration, with `_` for `.`."""

    segment_bytes: int = 1 << 30
    segment_ms: int = _WEEK_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    retention_ms: int = _WEEK_MS
    retention_bytes: int = NO_LIMIT
    flush_messages: int = _NEVER
    flush_ms: int = _NEVER
    file_delete_delay_ms: int = 60_000
    delete: bool = True
    """Whether `cleanup.policy` names `delete`. Without it, retention removes only segments below the log start."""
    compact: bool = False
    """Whether `cleanup.policy` names `compact`."""
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = _NEVER
    delete_retention_ms: int = _DAY_MS
