"""Proves that the coordinator of a transaction knows of a partition before the transaction's first record is written
there (KIP-890). Otherwise a delayed record of an ended transaction would open a transaction that no marker ends.

A leader that gets the first batch of a transaction takes a guard, asks the coordinator, and appends with the guard. A
marker that is appended meanwhile invalidates the guard, because the transaction has ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.records.header import BatchHeader


class VerificationGuard:
    """Identifies one verification. Compared by identity."""

    __slots__ = ()


UNVERIFIED = VerificationGuard()
"""The guard of a broker that does not verify (`transaction.partition.verification.enable=false`). Always valid."""


class _Verification:
    __slots__ = ("epoch", "guard", "lowest_sequence", "started_ms", "supports_epoch_bump")

    def __init__(self, sequence: int, epoch: int, supports_epoch_bump: bool, now_ms: int) -> None:
        self.guard = VerificationGuard()
        self.lowest_sequence = sequence
        self.epoch = epoch
        self.supports_epoch_bump = supports_epoch_bump
        self.started_ms = now_ms


class Verifications:
    """The guards of one partition, by producer id."""

    __slots__ = ("_pending",)

    def __init__(self) -> None:
        self._pending: dict[int, _Verification] = {}

    def start(
        self, producer_id: int, sequence: int, epoch: int, *, supports_epoch_bump: bool, now_ms: int
    ) -> VerificationGuard:
        """Begin a verification, or join the pending one: batches of a producer that wait for the same reply share a
        guard.

        The batch with the lowest sequence number must be appended first, because it would be out of order after others.
        """
        pending = self._pending.get(producer_id)
        if pending is None:
            pending = self._pending[producer_id] = _Verification(sequence, epoch, supports_epoch_bump, now_ms)
        elif epoch > pending.epoch or (epoch == pending.epoch and sequence < pending.lowest_sequence):
            pending.epoch, pending.lowest_sequence = epoch, sequence
        return pending.guard

    def check_guard(self, producer_id: int, guard: VerificationGuard | None) -> None:
        """Raises KafkaError unless the guard belongs to the pending verification of the producer."""
        if guard is UNVERIFIED:
            return
        pending = self._pending.get(producer_id)
        if guard is None or pending is None or pending.guard is not guard:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE, f"producer {producer_id} sent a record of an unknown transaction"
            )

    def check_sequence(self, header: BatchHeader, *, has_batches: bool) -> None:
        """Raises KafkaError if a lower sequence number must be appended first. Clients that begin each transaction in a
        new epoch begin it with sequence number 0."""
        pending = self._pending.get(header.producer_id)
        if pending is None:
            return
        due = pending.lowest_sequence
        if pending.supports_epoch_bump and not has_batches:
            due = 0
        if header.base_sequence > due:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id} sent sequence number {header.base_sequence} instead of {due}",
            )

    def end(self, producer_id: int) -> None:
        """End the verification, because a record of the transaction or its marker was written."""
        if self._pending:
            self._pending.pop(producer_id, None)

    def expire(self, oldest_ms: int) -> None:
        self._pending = {key: pending for key, pending in self._pending.items() if pending.started_ms > oldest_ms}
