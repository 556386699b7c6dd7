"""The results of commands, as plain data. Handlers translate them into responses of the request's version."""

from typing import NamedTuple, TypeAlias

from ottla.errors import ErrorCode
from ottla.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition


class InitProducerIdResult(NamedTuple):
    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH

    def failed(self, error: ErrorCode) -> "InitProducerIdResult":
        return InitProducerIdResult(error)


class AddPartitionsResult(NamedTuple):
    errors: tuple[ErrorCode, ...]
    """One for each partition of the command, in its order."""

    def failed(self, error: ErrorCode) -> "AddPartitionsResult":
        return AddPartitionsResult((error,) * len(self.errors))


class EndTxnResult(NamedTuple):
    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    """The id and epoch for the next transaction of a client of protocol 2."""
    producer_epoch: int = NO_PRODUCER_EPOCH

    def failed(self, error: ErrorCode) -> "EndTxnResult":
        return EndTxnResult(error)


Result: TypeAlias = InitProducerIdResult | AddPartitionsResult | EndTxnResult


class DescribedTransaction(NamedTuple):
    error: ErrorCode
    transactional_id: str
    state: str = ""
    transaction_timeout_ms: int = 0
    transaction_start_time_ms: int = 0
    producer_id: int = 0
    producer_epoch: int = 0
    partitions: tuple[TopicPartition, ...] = ()
    """In a prepare state, only the partitions whose marker is not written yet."""


class ListedTransaction(NamedTuple):
    transactional_id: str
    producer_id: int
    state: str


def for_older_client(error: ErrorCode) -> ErrorCode:
    """Older clients do not know PRODUCER_FENCED. It was added in InitProducerId 4 and in version 2 of
    AddPartitionsToTxn, AddOffsetsToTxn and EndTxn (KIP-588)."""
    return ErrorCode.INVALID_PRODUCER_EPOCH if error is ErrorCode.PRODUCER_FENCED else error
