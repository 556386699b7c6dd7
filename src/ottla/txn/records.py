"""The records of `__transaction_state`, in Kafka's own format: docs/formats/transaction-state.md.

A key is a 2-byte version and the transactional id. A value is a 2-byte version and the state of the transactional id. A
record without a value is a tombstone, which has its own class here.
"""

import struct
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from ottla.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, TopicPartition
from ottla.txn.commands import PROTOCOL_1
from ottla.txn.state import BY_CODE, EMPTY, TransactionState
from ottla.wire import codec
from ottla.wire.api.transaction_records import PartitionsSchema, TransactionLogKey, TransactionLogValue

KEY_VERSION = 0
VALUE_VERSION = 1
"""The version that Kafka writes since transaction.version 1. It is flexible, with tagged fields for the previous and
the next producer id."""

_SHORT = struct.Struct(">h")


class TransactionStored(NamedTuple):
    """The state of a transactional id after a transition."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: TransactionState
    transaction_timeout_ms: int
    last_update_timestamp_ms: int
    start_timestamp_ms: int = NO_TIMESTAMP
    partitions: frozenset[TopicPartition] = frozenset()
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before this transition; usually the same."""
    next_producer_id: int = NO_PRODUCER_ID
    """Set while a transaction ends that has used the last epoch of its producer id: the client's next id."""
    protocol: int = PROTOCOL_1
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    """The previous epoch of the client. It identifies a retried InitProducerId. Kafka's format has no field for it, so
    it is lost when another broker becomes the coordinator."""


class TransactionRemoved(NamedTuple):
    transactional_id: str


Record: TypeAlias = TransactionStored | TransactionRemoved


def encode(record: Record) -> tuple[bytes, bytes | None]:
    """The key and the value of the record."""
    key = codec.encode(TransactionLogKey(transactional_id=record.transactional_id), KEY_VERSION)
    value = None if isinstance(record, TransactionRemoved) else _encode_value(record)
    return _SHORT.pack(KEY_VERSION) + key, value


def decode(key: bytes, value: bytes | None) -> Record | None:
    """The record, or None if this broker does not know its version. Such records are ignored (KIP-915)."""
    (key_version,) = _SHORT.unpack_from(key)
    if key_version != KEY_VERSION:
        return None
    transactional_id = codec.decode(TransactionLogKey, key, KEY_VERSION, 2)[0].transactional_id
    if value is None:
        return TransactionRemoved(transactional_id)
    (version,) = _SHORT.unpack_from(value)
    if version > TransactionLogValue.max_version:
        return None
    return _decode_value(transactional_id, codec.decode(TransactionLogValue, value, version, 2)[0])


def _encode_value(record: TransactionStored) -> bytes:
    value = TransactionLogValue(
        producer_id=record.producer_id,
        previous_producer_id=record.previous_producer_id,
        next_producer_id=record.next_producer_id,
        producer_epoch=record.producer_epoch,
        transaction_timeout_ms=record.transaction_timeout_ms,
        transaction_status=record.state.code,
        transaction_partitions=None if record.state is EMPTY else _by_topic(record.partitions),
        transaction_last_update_timestamp_ms=record.last_update_timestamp_ms,
        transaction_start_timestamp_ms=record.start_timestamp_ms,
        client_transaction_version=record.protocol,
    )
    return _SHORT.pack(VALUE_VERSION) + codec.encode(value, VALUE_VERSION)


def _by_topic(partitions: Iterable[TopicPartition]) -> list[PartitionsSchema]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in topics.items()]


def _decode_value(transactional_id: str, value: TransactionLogValue) -> TransactionStored:
    if value.transaction_status not in BY_CODE:
        raise ValueError(f"{transactional_id!r} has the unknown state {value.transaction_status}")
    return TransactionStored(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        state=BY_CODE[value.transaction_status],
        transaction_timeout_ms=value.transaction_timeout_ms,
        last_update_timestamp_ms=value.transaction_last_update_timestamp_ms,
        start_timestamp_ms=value.transaction_start_timestamp_ms,
        partitions=frozenset(
            TopicPartition(topic.topic, partition)
            for topic in value.transaction_partitions or ()
            for partition in topic.partition_ids
        ),
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        protocol=value.client_transaction_version,
    )
