"""How large a run is. Everything else about it follows from the seed."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    seconds: float
    """For how long records are produced and things go wrong; the copiers then get the time they need."""
    copiers: int = 5
    kafka_copiers: int = 0
    """Copiers that are Apache Kafka's own tool, beside the others."""
    partitions: int = 6
    rate: int = 800
    """Records a second."""
    padding: int = 200
    """Bytes added to a value, so that the output fills more than one segment."""
    fault_every: float = 2.5
    """Seconds from one fault to the next, on average."""
    session_timeout_ms: int = 2000
    transaction_timeout_ms: int = 4000
    abort_share: float = 0.1
    offsets_outside: bool = False
    """The copiers make a mistake that has to be found."""

    @property
    def strategy(self) -> str:
        """Both ways to rebalance get their turn; Kafka's tool starts with the eager one, and a group needs one way."""
        return "range" if self.kafka_copiers or self.seed % 2 else "cooperative-sticky"


@dataclass(frozen=True, slots=True)
class Names:
    run: str
    """The group of the copiers, and how topics and transactional ids begin."""
    bootstrap: str

    @property
    def input(self) -> str:
        return f"{self.run}-input"

    @property
    def output(self) -> str:
        return f"{self.run}-output"
