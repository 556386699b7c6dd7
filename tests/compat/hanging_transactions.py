"""Transactions that a partition believes open and no coordinator knows of.

Such are left behind by brokers that do not ask the coordinator before they store a transactional batch, as all did once
(KIP-890), and `transaction.partition.verification.enable=false` still makes one do.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kio.schema.errors import ErrorCode

from tests.compat import batches, transaction_requests
from tests.compat.deadlines import eventually
from tests.compat.transaction_requests import Place, Producer
from tests.compat.wire import Connection

VERIFICATION = "transaction.partition.verification.enable"
BROKER, SET, DELETE = 4, 0, 1
OLD_PRODUCE = 11
"""The last version of Produce that leaves the adding of partitions to the client."""


def hang(connection: Connection, transactional_id: str, place: Place, timestamp: int) -> Producer:
    """A producer that has sent to a partition which its transaction does not contain, long ago."""
    transaction_requests.prepare(connection)
    reply = transaction_requests.init(connection, transactional_id)
    producer = Producer(reply.producer_id, reply.producer_epoch)
    batch = batches.pack(
        [b"hanging"],
        timestamps=[timestamp],
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        sequence=0,
        attributes=batches.TRANSACTIONAL,
    )

    def stored() -> bool:
        answers = transaction_requests.produce(connection, transactional_id, {place: batch}, version=OLD_PRODUCE)
        return answers[place].error_code is ErrorCode.none

    assert not stored()
    with _unverified(connection):
        eventually(stored)
    return producer


@contextmanager
def _unverified(connection: Connection) -> Iterator[None]:
    _alter(connection, {"name": VERIFICATION, "config_operation": SET, "value": "false"})
    try:
        yield
    finally:
        _alter(connection, {"name": VERIFICATION, "config_operation": DELETE, "value": None})


def _alter(connection: Connection, change: dict[str, Any]) -> None:
    every_broker = {"resource_type": BROKER, "resource_name": "", "configs": [change]}
    [answer] = connection.call("incremental_alter_configs", 1, resources=[every_broker], validate_only=False).responses
    assert answer.error_code is ErrorCode.none, answer.error_message
