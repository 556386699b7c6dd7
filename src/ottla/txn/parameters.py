"""The broker settings that rule transactions, and the limits that Kafka fixes."""

from typing import NamedTuple

MAX_EPOCH = 2**15 - 1
LAST_CLIENT_EPOCH = MAX_EPOCH - 1
"""No client is given the highest epoch, so that the coordinator can always raise a client's epoch once more."""

MARKER_RETRY_MS = 100
"""The pause before markers that could not be written, or a record that says that they all are, is tried again."""


class TxnParameters(NamedTuple):
    """Named after their configuration keys, with Kafka's defaults."""

    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 7 * 24 * 60 * 60 * 1_000
