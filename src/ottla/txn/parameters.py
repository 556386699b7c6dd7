"""The broker settings for transactions, and Kafka's fixed limits."""

from typing import NamedTuple

MAX_EPOCH = 2**15 - 1
LAST_CLIENT_EPOCH = MAX_EPOCH - 1
"""No client gets the highest epoch, so that the coordinator can always bump the epoch of a client once more."""

MARKER_RETRY_MS = 100
"""The pause before a retry of markers, or of the record that completes the transaction."""


class TxnParameters(NamedTuple):
    """Named after their configuration keys, with Kafka's defaults."""

    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 7 * 24 * 60 * 60 * 1_000
