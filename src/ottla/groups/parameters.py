"""The broker settings for groups."""

from typing import NamedTuple

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""Kafka's fixed timeout for the first JoinGroup of a member, which cannot send heartbeats yet."""


class GroupParameters(NamedTuple):
    """Named after their configuration keys, with Kafka's defaults."""

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = 2**31 - 1
    group_initial_rebalance_delay_ms: int = 3_000
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 60 * 60 * 1_000
