"""The states of a transactional id, and the table of transitions between them."""

from enum import Enum

from ottla.coordinator_core.transitions import Transitions


class TransactionState(Enum):
    """The values are Kafka's names in DescribeTransactions and ListTransactions."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    """Kafka uses this state before it writes the record that fences a producer. In Ottla no transaction is ever in it.
    It exists so that clients can name it in a filter."""

    @property
    def code(self) -> int:
        """The number of the state in a record."""
        return _CODES[self]

    @property
    def is_preparing(self) -> bool:
        """The result of the transaction is decided, and its markers are being written."""
        return self in (PREPARE_COMMIT, PREPARE_ABORT)

    @property
    def is_at_rest(self) -> bool:
        """No transaction is open: the id may start one, be initialised again, or expire."""
        return self in (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT)


EMPTY = TransactionState.EMPTY
ONGOING = TransactionState.ONGOING
PREPARE_COMMIT = TransactionState.PREPARE_COMMIT
PREPARE_ABORT = TransactionState.PREPARE_ABORT
COMPLETE_COMMIT = TransactionState.COMPLETE_COMMIT
COMPLETE_ABORT = TransactionState.COMPLETE_ABORT
DEAD = TransactionState.DEAD
PREPARE_EPOCH_FENCE = TransactionState.PREPARE_EPOCH_FENCE

_CODES = {state: code for code, state in enumerate(TransactionState)}
BY_CODE = dict(enumerate(TransactionState))

_FROM_REST = {
    EMPTY: "a producer is initialised",
    ONGOING: "a first partition is added",
    PREPARE_ABORT: "a client of protocol 2 aborts without having written",
    DEAD: "the id is not used for transactional.id.expiration.ms",
}

TRANSITIONS = Transitions(
    "a transaction",
    EMPTY,
    DEAD,
    {
        EMPTY: _FROM_REST,
        ONGOING: {
            ONGOING: "a partition is added",
            PREPARE_COMMIT: "the client commits",
            PREPARE_ABORT: "the client aborts, the timeout passes, or a producer is initialised",
        },
        PREPARE_COMMIT: {COMPLETE_COMMIT: "every marker is written"},
        PREPARE_ABORT: {COMPLETE_ABORT: "every marker is written"},
        COMPLETE_COMMIT: _FROM_REST,
        COMPLETE_ABORT: _FROM_REST,
        DEAD: {},
        PREPARE_EPOCH_FENCE: {},
    },
)
