"""The requests of clients, and of brokers on their behalf, to a transaction, as plain data."""

from collections.abc import Sequence
from typing import NamedTuple

from ottla.model import Producer, TopicPartition

PROTOCOL_1 = 0
"""Clients that add partitions themselves and keep their epoch. Kafka stores them as transaction version 0."""
PROTOCOL_2 = 2
"""KIP-890: each end of a transaction raises the epoch, so that late records cannot get into the next transaction."""


class InitProducerId(NamedTuple):
    transactional_id: str
    transaction_timeout_ms: int
    expected: Producer | None = None
    """The current id and epoch of a client that continues after an error instead of taking over (KIP-360)."""


class AddPartitions(NamedTuple):
    """AddPartitionsToTxn. AddOffsetsToTxn is the same for the partition of `__consumer_offsets` that has the group."""

    transactional_id: str
    producer: Producer
    partitions: Sequence[TopicPartition]
    protocol: int = PROTOCOL_1
    """Protocol 2 from AddPartitionsToTxn 4 up, which brokers send when a client of protocol 2 produces."""


class EndTxn(NamedTuple):
    transactional_id: str
    producer: Producer
    committed: bool
    protocol: int = PROTOCOL_1
    """Protocol 2 from EndTxn 5 up."""
