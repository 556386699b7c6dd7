"""One row of the config table: Kafka's name, type, default, allowed values, and how the key may change."""

from enum import Enum, IntEnum
from typing import Protocol, TypeAlias

Value: TypeAlias = bool | int | float | str | tuple[str, ...]
"""A parsed value. An unset key has None instead."""


class Kind(IntEnum):
    """The type of a value, with the id that DescribeConfigs sends."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Update(Enum):
    """How a broker key may change while the broker runs (KIP-226)."""

    READ_ONLY = "no"
    PER_BROKER = "per broker"
    CLUSTER_WIDE = "per broker or cluster-wide"


class Importance(Enum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Effect(Enum):
    """Whether a key has an effect in Ottla, or is only accepted and described for Kafka's tools and files."""

    SERVED = "served"
    DESCRIBED = "described only"


class ConfigError(ValueError):
    """An invalid value, or an invalid combination of values. The message is one sentence for the operator."""

    def __init__(self, name: str, value: object, reason: str) -> None:
        super().__init__(f"Invalid value {value} for configuration {name}: {reason}")
        self.name = name
        self.value: object = value
        self.reason = reason


class UnknownKeyError(ConfigError):
    """A name that is not in the table, where only known names are allowed."""

    def __init__(self, resource: str, name: str) -> None:
        ValueError.__init__(self, f"Unknown {resource} config name: {name}")
        self.name = name
        self.value = None
        self.reason = "the name is not known"


class LimitError(ConfigError):
    """A value beyond the limit that another key sets. The message is that of Apache Kafka."""

    def __init__(self, name: str, value: object, relation: str, limit: str) -> None:
        ValueError.__init__(self, f"{name} must be {relation} {limit}")
        self.name = name
        self.value = value
        self.reason = f"it must be {relation} {limit}"


class Check(Protocol):
    """A rule for the value of one key."""

    def problem(self, value: Value) -> str | None:
        """Why the value is invalid, as the end of a sentence; None if it is valid."""

    def describe(self) -> str:
        """The allowed values, for the reference page."""


_SAME = object()


class Key:
    """One row. Defaults are text, as DescribeConfigs prints them; None means unset."""

    __slots__ = (
        "check",
        "default",
        "doc",
        "effect",
        "importance",
        "internal",
        "kafka_default",
        "kind",
        "name",
        "server_key",
        "update",
    )

    def __init__(
        self,
        name: str,
        kind: Kind,
        default: str | None,
        importance: Importance,
        doc: str,
        check: Check | None = None,
        *,
        update: Update = Update.READ_ONLY,
        effect: Effect = Effect.DESCRIBED,
        ottla_default: object = _SAME,
        internal: bool = False,
        server_key: str | None = None,
    ) -> None:
        self.name = name
        self.kind = kind
        self.kafka_default = default
        """Apache Kafka's default. `default` differs from it where another value suits a single small node better."""
        self.default: str | None = default if ottla_default is _SAME else ottla_default  # type: ignore[assignment]
        self.importance = importance
        self.doc = doc
        self.check = check
        self.update = update
        self.effect = effect
        self.internal = internal
        """DescribeConfigs lists the key only if it is set."""
        self.server_key = server_key
        """For topic and group keys: the broker key with the default."""

    @property
    def sensitive(self) -> bool:
        """Whether the value is a secret. Secrets are stored, but never shown."""
        return self.kind is Kind.PASSWORD

    def __repr__(self) -> str:
        return f"Key({self.name!r})"
