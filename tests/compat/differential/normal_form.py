"""Answers without what must differ between two brokers: ids, times, ports, and the words of error messages."""

from collections.abc import Iterator
from typing import Any

from ottla.config.keys import BROKER_KEYS, TOPIC_KEYS
from ottla.model import METADATA_TOPIC_ID, ZERO_TOPIC_ID
from ottla.wire.schema import Struct
from tests.config.facts import KEYS

_DROPPED = frozenset(
    {
        "throttle_time_ms",
        "cluster_id",
        "documentation",
        "finalized_features_epoch",
        "host",
        "log_dir",
        "port",
        "total_bytes",
        "usable_bytes",
    }
)
_TEXTS = frozenset({"error_message", "batch_index_error_message"})
_IDS = frozenset({"leader", "member_id", "producer_id", "session_id", "topic_id"})
"""Chosen by the broker: the same id must appear in the same places, whatever it is."""
_TIMES = frozenset({"log_append_time_ms", "transaction_start_time_ms", "last_timestamp"})
OTTLA_KEYS = (TOPIC_KEYS.keys() - KEYS["topic"].keys()) | (BROKER_KEYS.keys() - KEYS["broker"].keys())
"""Settings that Apache Kafka does not have."""
_FIXED_IDS = (None, "", 0, -1, ZERO_TOPIC_ID, METADATA_TOPIC_ID)
"""Ids that mean something by themselves."""


class NormalForm:
    """Turns the messages of one case into comparable values."""

    def __init__(self, texts: bool, unordered: frozenset[str], ignored: frozenset[str]) -> None:
        self._unordered = unordered
        self._dropped = _DROPPED | ignored | (frozenset() if texts else _TEXTS)
        self._ids: dict[Any, str] = {}
        self._ordered = True
        """In a list without an order, ids cannot be told apart by their order either."""

    def of(self, message: Struct) -> Any:
        return {
            field.name: self._value(field.name, getattr(message, field.name))
            for field in message.__fields__
            if field.name not in self._dropped
        }

    def _value(self, name: str, value: Any) -> Any:
        if isinstance(value, Struct):
            return self.of(value)
        if isinstance(value, list):
            return self._list(name, value)
        if isinstance(value, memoryview | bytearray):
            value = bytes(value)
        if name in _IDS and value not in _FIXED_IDS:
            return self._ids.setdefault((name, value), f"{name} {len(self._ids) + 1}") if self._ordered else name
        if name in _TIMES and value > 0:
            return "a time"
        return value

    def _list(self, name: str, items: list[Any]) -> list[Any]:
        if name == "configs":
            items = [item for item in items if item.name not in OTTLA_KEYS]
        if name not in self._unordered:
            return [self._value("", item) for item in items]
        before, self._ordered = self._ordered, False
        normal = sorted((self._value("", item) for item in items), key=repr)
        self._ordered = before
        return normal


def differences(theirs: Any, ours: Any, path: str = "") -> Iterator[str]:
    """Each place where two normal forms are not the same, as a line of text."""
    if isinstance(theirs, dict) and isinstance(ours, dict) and theirs.keys() == ours.keys():
        for name in theirs:
            yield from differences(theirs[name], ours[name], f"{path}.{name}")
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for index, (one, other) in enumerate(zip(theirs, ours, strict=True)):
            yield from differences(one, other, f"{path}[{index}]")
    elif theirs != ours:
        yield f"{path}: Apache Kafka {theirs!r}, Ottla {ours!r}"
