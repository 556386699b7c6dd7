"""The size of a run. Everything else follows from the seed."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    seconds: float
    """How long records are produced and faults injected. The copiers then get the time they need."""
    copiers: int = 5
    kafka_copiers: int = 0
    """Additional copiers that are Apache Kafka's own tool."""
    partitions: int = 6
    rate: int = 800
    """Records per second."""
    padding: int = 200
    """Bytes added to a value, so that the output fills more than one segment."""
    fault_every: float = 2.5
    """Average seconds between two faults."""
    session_timeout_ms: int = 2000
    transaction_timeout_ms: int = 4000
    abort_share: float = 0.1
    offsets_outside: bool = False
    """Whether the copiers make a mistake that the verdict must find."""

    @property
    def strategy(self) -> str:
        """Runs alternate between the rebalance protocols. Kafka's tool uses the eager one, and a group needs one
        protocol."""
        return "range" if self.kafka_copiers or self.seed % 2 else "cooperative-sticky"


@dataclass(frozen=True, slots=True)
class Names:
    run: str
    """The group of the copiers, and the prefix of topics and transactional ids."""
    bootstrap: str

    @property
    def input(self) -> str:
        return f"{self.run}-input"

    @property
    def output(self) -> str:
        return f"{self.run}-output"
