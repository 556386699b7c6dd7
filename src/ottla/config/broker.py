"""The settings in effect on one broker: Kafka's layers of config, parsed once."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from ottla.config import consistency
from ottla.config.definition import ConfigError, Key, Value
from ottla.config.keys import BROKER_KEYS
from ottla.config.synonyms import FALLBACKS, base_name
from ottla.config.values import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@cache
def _defaults() -> dict[str, Value | None]:
    return {key.name: None if key.default is None else parse(key, key.default) for key in BROKER_KEYS.values()}


def _key_of(name: str) -> Key | None:
    return BROKER_KEYS.get(name) or BROKER_KEYS.get(base_name(name))


class BrokerConfig:
    """Immutable. Precedence: this broker's dynamic values, the cluster's dynamic values, the static file, defaults.

    Reading a value is one dictionary lookup. If a key is unset and Kafka derives it from others, such as
    log.retention.ms from log.retention.hours, its value is the derived one. `parsed` has the values without derivation.
    """

    __slots__ = ("_values", "cluster", "parsed", "per_broker", "static", "warnings")

    def __init__(
        self,
        static: Mapping[str, str] | None = None,
        per_broker: Mapping[str, str] | None = None,
        cluster: Mapping[str, str] | None = None,
    ) -> None:
        self.static: Mapping[str, str] = _with_both_ids(static or {})
        self.per_broker: Mapping[str, str] = per_broker or {}
        self.cluster: Mapping[str, str] = cluster or {}
        self.warnings = _unknown(self.static)
        self.parsed: dict[str, Value | None] = dict(_defaults())
        for layer in (self.static, self.cluster, self.per_broker):
            self.parsed.update(_parse_layer(layer))
        self._values = _with_fallbacks(self.parsed)
        consistency.check(self)

    def with_dynamic(self, per_broker: Mapping[str, str], cluster: Mapping[str, str]) -> BrokerConfig:
        """The same static values with other dynamic values.

        A stored value that is invalid in this release, or that contradicts the file, is ignored with a warning: it must
        not keep a broker from starting.
        """
        warnings: list[str] = []
        cluster_wide = _usable(cluster, lambda layer: BrokerConfig(self.static, {}, layer), warnings)
        own = _usable(per_broker, lambda layer: BrokerConfig(self.static, layer, cluster_wide), warnings)
        usable = BrokerConfig(self.static, own, cluster_wide)
        usable.warnings = (*usable.warnings, *warnings)
        return usable

    def get(self, name: str) -> Value | None:
        return self._values[name]

    def integer(self, name: str) -> int:
        value = self._values[name]
        if not isinstance(value, int):
            raise _wrong(name, value, "an integer")
        return value

    def boolean(self, name: str) -> bool:
        value = self._values[name]
        if not isinstance(value, bool):
            raise _wrong(name, value, "true or false")
        return value

    def double(self, name: str) -> float:
        value = self._values[name]
        if not isinstance(value, float):
            raise _wrong(name, value, "a number")
        return value

    def string(self, name: str) -> str:
        value = self._values[name]
        if not isinstance(value, str):
            raise _wrong(name, value, "a string")
        return value

    def list(self, name: str) -> tuple[str, ...]:
        value = self._values[name]
        if not isinstance(value, tuple):
            raise _wrong(name, value, "a list")
        return value


def _with_both_ids(static: Mapping[str, str]) -> dict[str, str]:
    """Set both node.id and broker.id, which are two names of the same setting."""
    both = dict(static)
    node, broker = both.get("node.id"), both.get("broker.id")
    if broker is not None and broker.strip() == "-1":  # Kafka's default: no id.
        del both["broker.id"]
        broker = None
    if node is not None and broker is not None and node.strip() != broker.strip():
        raise ConfigError("broker.id", broker, f"it must be the same as node.id, which is {node}")
    number = node if node is not None else broker
    if number is not None:
        both["node.id"] = both["broker.id"] = number
    return both


def _parse_layer(layer: Mapping[str, str]) -> dict[str, Value]:
    return {name: parse(BROKER_KEYS[name], text) for name, text in layer.items() if name in BROKER_KEYS}


def _usable(
    layer: Mapping[str, str], build: Callable[[Mapping[str, str]], BrokerConfig], warnings: list[str]
) -> dict[str, str]:
    """The values of a layer, without those that make the config invalid together with the values before them."""
    usable: dict[str, str] = {}
    for name, text in layer.items():
        try:
            build({**usable, name: text})
        except ConfigError as error:
            warnings.append(f"ignoring a stored value: {error}")
        else:
            usable[name] = text
    return usable


def _unknown(static: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"{name} is not a broker key; it has no effect" for name in static if _key_of(name) is None)


def _with_fallbacks(parsed: dict[str, Value | None]) -> dict[str, Value | None]:
    values = dict(parsed)
    for name, fallbacks in FALLBACKS.items():
        for source, factor in fallbacks:
            value = parsed[source]
            if value is not None:
                values[name] = value * factor if isinstance(value, int) else value
                break
    retention = values["log.retention.ms"]
    if isinstance(retention, int) and retention < 0:
        values["log.retention.ms"] = -1
    return values


def _wrong(name: str, value: object, expected: str) -> ConfigError:
    return ConfigError(name, value, f"the value must be {expected}")
