"""Authorized operations, as the bit field of KIP-430. Without an authorizer every operation is allowed."""

from enum import IntEnum


class Operation(IntEnum):
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


NOT_ASKED = -(2**31)

_SETTINGS = 1 << Operation.DESCRIBE_CONFIGS | 1 << Operation.ALTER_CONFIGS
_ACCESS = 1 << Operation.READ | 1 << Operation.DELETE | 1 << Operation.DESCRIBE

ON_GROUPS = _SETTINGS | _ACCESS
ON_TOPICS = _SETTINGS | _ACCESS | 1 << Operation.WRITE | 1 << Operation.CREATE | 1 << Operation.ALTER
ON_CLUSTER = (
    _SETTINGS
    | 1 << Operation.CREATE
    | 1 << Operation.CLUSTER_ACTION
    | 1 << Operation.IDEMPOTENT_WRITE
    | 1 << Operation.ALTER
    | 1 << Operation.DESCRIBE
)
