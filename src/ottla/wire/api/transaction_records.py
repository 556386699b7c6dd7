"""The records of a transaction coordinator in `__transaction_state`.

As in `group_records`, key and value each start with an int16 version that is not part of the schema, and a record
without a value is a tombstone.
"""

from ottla.wire.schema import Message, Struct, array, int8, int16, int32, int64, string


class TransactionLogKey(Message, versions=(0, 0)):
    transactional_id: str = string()


class PartitionsSchema(Struct):
    topic: str = string()
    partition_ids: list[int] = array(int32())


class TransactionLogValue(Message, versions=(0, 1), flexible=1):
    producer_id: int = int64()
    previous_producer_id: int = int64(since=1, default=-1, tag=0)
    next_producer_id: int = int64(since=1, default=-1, tag=1)
    producer_epoch: int = int16()
    transaction_timeout_ms: int = int32()
    transaction_status: int = int8()
    transaction_partitions: list[PartitionsSchema] | None = array(PartitionsSchema, nullable_since=0)
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()
    client_transaction_version: int = int16(since=1, tag=2)
