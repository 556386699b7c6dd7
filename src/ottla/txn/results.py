"""The answers of the core, as plain data. Handlers translate them into the version of the request."""

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
    """A client of protocol 2 continues with this id and epoch."""
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
    """While a transaction ends, only the partitions without a marker."""


class ListedTransaction(NamedTuple):
    transactional_id: str
    producer_id: int
    state: str


def for_older_client(error: ErrorCode) -> ErrorCode:
    """PRODUCER_FENCED came with InitProducerId 4 and AddPartitionsToTxn, AddOffsetsToTxn and EndTxn 2 (KIP-588)."""
    return ErrorCode.INVALID_PRODUCER_EPOCH if error is ErrorCode.PRODUCER_FENCED else error
