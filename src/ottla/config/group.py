"""The settings of one group: the values in effect, and the limits that the broker sets for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.config.definition import LimitError, UnknownKeyError, Value
from ottla.config.keys import BROKER_KEYS, GROUP_KEYS
from ottla.config.values import parse, usable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.config.broker import BrokerConfig


def group_values(broker: BrokerConfig, overrides: Mapping[str, str]) -> dict[str, Value | None]:
    """Every group key with its value. Ignores unknown and invalid overrides."""
    own, _ = usable(GROUP_KEYS, overrides)
    values: dict[str, Value | None] = {}
    for name, key in GROUP_KEYS.items():
        if name in own:
            values[name] = own[name]
        elif key.server_key is not None:
            values[name] = broker.get(key.server_key)
        else:
            values[name] = None if key.default is None else parse(key, key.default)
    return values


def validate_group_overrides(overrides: Mapping[str, str], broker: BrokerConfig) -> None:
    """Raise ConfigError for an unknown name, an invalid value, or a value outside the broker's limits."""
    for name in overrides:
        if name not in GROUP_KEYS:
            raise UnknownKeyError("group", name)
    for problem in usable(GROUP_KEYS, overrides)[1]:
        raise problem
    values = group_values(broker, overrides)
    for name in overrides:
        _check_limits(broker, name, values[name])
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        timeout, interval = values[session], values[heartbeat]
        if isinstance(timeout, int) and isinstance(interval, int) and timeout <= interval:
            raise LimitError(session, timeout, "greater than", heartbeat)


def _check_limits(broker: BrokerConfig, name: str, value: Value | None) -> None:
    """Check the limits. Their keys have min or max after the kind of group: group.share.max.delivery.count.limit."""
    if not isinstance(value, int):
        return
    kind, _, rest = name.partition(".")
    rest = rest.removeprefix("num.")
    low, high = f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}"
    if low in BROKER_KEYS and value < broker.integer(low):
        raise LimitError(name, value, "greater than or equal to", low)
    if high in BROKER_KEYS and value > broker.integer(high):
        raise LimitError(name, value, "less than or equal to", high)
