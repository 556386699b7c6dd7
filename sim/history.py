"""The acknowledgements and records that clients received. The checks compare the logs with them."""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.model import TopicPartition
from sim.group_checks import GroupFacts
from sim.transaction_checks import Transaction


@dataclass
class History:
    acknowledged: dict[TopicPartition, dict[int, bytes]] = field(default_factory=dict)
    """Values of acknowledged records, by offset."""
    seen: dict[TopicPartition, dict[int, bytes]] = field(default_factory=dict)
    """Values that consumers have read, by offset."""
    sent: set[bytes] = field(default_factory=set)
    committed: int = -1
    """The last offset whose commit was acknowledged."""
    committing: int = -1
    """The last offset that was sent to be committed."""
    transactions: list[Transaction] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    group: GroupFacts = field(init=False)

    def __post_init__(self) -> None:
        self.group = GroupFacts(self.violations)

    def acknowledge(self, partition: TopicPartition, base_offset: int, values: list[bytes]) -> None:
        told = self.acknowledged.setdefault(partition, {})
        for offset, value in enumerate(values, base_offset):
            before = told.setdefault(offset, value)
            if before != value:
                self.violations.append(
                    f"{partition}: offset {offset} was acknowledged for {before!r} and for {value!r}"
                )

    def see(self, partition: TopicPartition, offset: int, value: bytes) -> None:
        before = self.seen.setdefault(partition, {}).setdefault(offset, value)
        if before != value:
            self.violations.append(f"{partition}: at offset {offset} a consumer saw {before!r}, then {value!r}")
