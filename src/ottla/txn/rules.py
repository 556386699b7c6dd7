"""The checks of each command to a transaction, by state. They have no effects.

A check returns an error code. After NONE, `core` performs the command.
"""

from enum import Enum

from ottla.errors import ErrorCode
from ottla.model import Producer
from ottla.txn.commands import PROTOCOL_2, EndTxn
from ottla.txn.parameters import LAST_CLIENT_EPOCH
from ottla.txn.state import COMPLETE_ABORT, COMPLETE_COMMIT, ONGOING
from ottla.txn.transaction import Transaction


def check_expected(transaction: Transaction, expected: Producer | None) -> ErrorCode:
    """Check InitProducerId of a client that sends its producer id and epoch (KIP-360).

    The previous producer id is accepted as a retry if it has used all its epochs.
    """
    if expected is None or expected.producer_id == transaction.stored.producer_id:
        return ErrorCode.NONE
    rotated = expected.producer_id == transaction.stored.previous_producer_id
    return ErrorCode.NONE if rotated and expected.producer_epoch >= LAST_CLIENT_EPOCH else ErrorCode.PRODUCER_FENCED


def check_adding(transaction: Transaction | None, producer: Producer) -> ErrorCode:
    if transaction is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if transaction.state.is_preparing:
        # Checked before the producer id: the client may already use the new id that it got when the transaction ended.
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return check_producer(transaction, producer)


def check_verifying(transaction: Transaction | None, producer: Producer) -> ErrorCode:
    """Check a broker's question whether partitions are in the transaction (KIP-890)."""
    if transaction is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    error = check_producer(transaction, producer)
    if error is ErrorCode.NONE and transaction.state.is_preparing:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return error


def check_producer(transaction: Transaction, producer: Producer) -> ErrorCode:
    if producer.producer_id != transaction.stored.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if producer.producer_epoch != transaction.stored.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.NONE


class EndVerdict(Enum):
    """The effect of an EndTxn without an error."""

    PREPARE = "prepare"
    """End the transaction."""
    REPEATED = "repeated"
    """A retry: the transaction has already ended with the same result. Send the reply again."""


def judge_end(transaction: Transaction | None, command: EndTxn) -> EndVerdict | ErrorCode:
    if transaction is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if command.protocol >= PROTOCOL_2:
        return _judge_end_2(transaction, command)
    return _judge_end_1(transaction, command)


def _judge_end_1(transaction: Transaction, command: EndTxn) -> EndVerdict | ErrorCode:
    """The epoch does not change, so only the state identifies a retry. A late EndTxn also counts as a retry."""
    error = check_producer(transaction, command.producer)
    if error is not ErrorCode.NONE:
        return error
    if transaction.state.is_preparing:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if transaction.state is ONGOING:
        return EndVerdict.PREPARE
    return EndVerdict.REPEATED if _ended_as(transaction, command.committed) else ErrorCode.INVALID_TXN_STATE


def _judge_end_2(transaction: Transaction, command: EndTxn) -> EndVerdict | ErrorCode:
    """The epoch tells a retry from the end of the next transaction, which may abort without any partition."""
    if transaction.state.is_preparing:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    rotated = _is_from_before_rotation(transaction, command.producer)
    if command.producer.producer_id != transaction.stored.producer_id and not rotated:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    current = command.producer.producer_epoch == transaction.stored.producer_epoch
    repeated = rotated or command.producer.producer_epoch + 1 == transaction.stored.producer_epoch
    if transaction.state in (COMPLETE_COMMIT, COMPLETE_ABORT) and repeated:
        return EndVerdict.REPEATED if _ended_as(transaction, command.committed) else ErrorCode.INVALID_TXN_STATE
    if not current:
        return ErrorCode.PRODUCER_FENCED
    if transaction.state is ONGOING or not command.committed:
        return EndVerdict.PREPARE
    return ErrorCode.INVALID_TXN_STATE


def _is_from_before_rotation(transaction: Transaction, producer: Producer) -> bool:
    stored = transaction.stored
    last = Producer(stored.previous_producer_id, LAST_CLIENT_EPOCH)
    return producer == last and stored.producer_epoch == 0


def _ended_as(transaction: Transaction, committed: bool) -> bool:
    return transaction.state is (COMPLETE_COMMIT if committed else COMPLETE_ABORT)
