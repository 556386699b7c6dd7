"""DescribeTransactions and ListTransactions (KIP-664)."""

from collections.abc import Callable, Collection

from ottla.errors import ErrorCode, KafkaError
from ottla.txn.results import DescribedTransaction, ListedTransaction
from ottla.txn.state import TransactionState
from ottla.txn.transaction import Transaction


class TransactionFilter:
    """The filters of ListTransactions. An empty filter accepts every transaction."""

    __slots__ = ("_duration_ms", "_matches", "_producer_ids", "_states", "unknown_states")

    def __init__(
        self,
        states: Collection[str] = (),
        producer_ids: Collection[int] = (),
        duration_ms: int = -1,
        pattern: str | None = None,
    ) -> None:
        """Raises KafkaError when the pattern is malformed."""
        self._states = frozenset(states)
        self._producer_ids = frozenset(producer_ids)
        self._duration_ms = duration_ms
        self._matches = _matcher(pattern) if pattern else None
        self.unknown_states = sorted(self._states - {state.value for state in TransactionState})
        """States that do not exist. They match nothing, and the response lists them."""

    def accepts(self, transaction: Transaction, wall_ms: int) -> bool:
        stored = transaction.stored
        return (
            (not self._producer_ids or stored.producer_id in self._producer_ids)
            and (not self._states or stored.state.value in self._states)
            and (self._duration_ms < 0 or wall_ms - stored.start_timestamp_ms > self._duration_ms)
            and (self._matches is None or self._matches(stored.transactional_id))
        )


def _matcher(pattern: str) -> Callable[[str], bool]:
    """Compile the pattern. This function and the function that it returns raise KafkaError."""
    from ottla.txn.pattern import LinearPattern, PatternError  # Imported here because patterns are rare.

    def refused(error: PatternError) -> KafkaError:
        return KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, f"{pattern!r} is not a supported pattern: {error}")

    try:
        compiled = LinearPattern(pattern)
    except PatternError as error:
        raise refused(error) from error

    def matches(transactional_id: str) -> bool:
        try:
            return compiled.matches(transactional_id)
        except PatternError as error:
            raise refused(error) from error

    return matches


def describe(transactional_id: str, transaction: Transaction | None) -> DescribedTransaction:
    if not transactional_id:
        return DescribedTransaction(ErrorCode.INVALID_REQUEST, transactional_id)
    if transaction is None:
        return DescribedTransaction(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id)
    stored = transaction.stored
    return DescribedTransaction(
        error=ErrorCode.NONE,
        transactional_id=transactional_id,
        state=stored.state.value,
        transaction_timeout_ms=stored.transaction_timeout_ms,
        transaction_start_time_ms=stored.start_timestamp_ms,
        producer_id=stored.producer_id,
        producer_epoch=stored.producer_epoch,
        partitions=tuple(sorted(transaction.unmarked if stored.state.is_preparing else stored.partitions)),
    )


def listed(transaction: Transaction) -> ListedTransaction:
    stored = transaction.stored
    return ListedTransaction(stored.transactional_id, stored.producer_id, stored.state.value)
