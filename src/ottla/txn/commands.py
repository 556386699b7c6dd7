"""The commands to a transaction, as plain data. Clients send them, or brokers for their clients."""

from collections.abc import Sequence
from typing import NamedTuple

from ottla.model import Producer, TopicPartition

PROTOCOL_1 = 0
"""The client adds partitions itself, and keeps its epoch. Kafka stores this as transaction version 0."""
PROTOCOL_2 = 2
"""KIP-890: each end of a transaction bumps the epoch, so that late records cannot join the next transaction."""


class InitProducerId(NamedTuple):
    transactional_id: str
    transaction_timeout_ms: int
    expected: Producer | None = None
    """Set if the client continues after an error: its current id and epoch (KIP-360). None fences other producers."""


class AddPartitions(NamedTuple):
    """AddPartitionsToTxn. AddOffsetsToTxn adds the partition of `__consumer_offsets` that stores the group."""

    transactional_id: str
    producer: Producer
    partitions: Sequence[TopicPartition]
    protocol: int = PROTOCOL_1
    """Protocol 2 from AddPartitionsToTxn 4 on. Brokers send it when a client of protocol 2 produces."""


class EndTxn(NamedTuple):
    transactional_id: str
    producer: Producer
    committed: bool
    protocol: int = PROTOCOL_1
    """Protocol 2 from EndTxn 5 on."""
