"""The rules of Apache Kafka 4.3 for combinations of broker keys, and for values that several keys determine.

`check` validates a config at the start and after a change, `check_change` validates the change itself.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

from ottla.config.connections import parse_overrides
from ottla.config.definition import ConfigError
from ottla.config.keys import BROKER_KEYS
from ottla.config.values import format_value

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig

CONNECTION_LIMITS = ("max.connections", "max.connection.creation.rate")
_MIN_CLEANER_BYTES = 1 << 20
_AT_MOST = (
    ("replica.fetch.wait.max.ms", "replica.socket.timeout.ms"),
    ("replica.fetch.wait.max.ms", "replica.lag.time.max.ms"),
    ("group.share.max.size", "group.share.max.share.sessions"),
    ("group.streams.num.standby.replicas", "group.streams.max.standby.replicas"),
    ("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
)
"""Pairs of keys. The value of the first key must not be above that of the second."""
_THREAD_POOLS = (
    "background.threads",
    "log.cleaner.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)
_LOCAL_RETENTION = (
    ("log.local.retention.ms", "log.retention.ms"),
    ("log.local.retention.bytes", "log.retention.bytes"),
)
_FIXED_CLASSES = ("metric.reporters", "principal.builder.class")
"""Keys that name Java classes. Ottla cannot load these, so it accepts only the default."""


def check(config: BrokerConfig) -> None:
    """Raise ConfigError for an invalid combination of values."""
    _check_log(config)
    _check_groups(config)
    _check_connections(config)
    for low, high in _AT_MOST:
        if config.integer(low) > config.integer(high):
            raise ConfigError(low, config.integer(low), f"it must be at most {high}, which is {config.integer(high)}")
    for name in ("offsets.topic.compression.codec", "share.coordinator.state.topic.compression.codec"):
        if not 0 <= config.integer(name) <= 4:
            raise ConfigError(name, config.integer(name), "the value must be between 0 and 4")


def _check_log(config: BrokerConfig) -> None:
    for name, low in (("log.roll.ms", 1), ("log.roll.jitter.ms", 0)):
        if config.integer(name) < low:
            raise ConfigError(name, config.integer(name), f"the value must be at least {low}")
    if config.integer("log.retention.ms") == 0:
        raise ConfigError("log.retention.ms", 0, "the value must be at least 1, or -1 for no limit")
    threads, buffer = config.integer("log.cleaner.threads"), config.integer("log.cleaner.dedupe.buffer.size")
    if threads < 1:
        raise ConfigError("log.cleaner.threads", threads, "the value must be at least 1")
    if buffer // threads <= _MIN_CLEANER_BYTES:
        reason = f"the value must be more than {_MIN_CLEANER_BYTES} for each of {threads} log.cleaner.threads"
        raise ConfigError("log.cleaner.dedupe.buffer.size", buffer, reason)
    rate = config.double("log.cleaner.io.max.bytes.per.second")
    if rate == 0:
        # Apache Kafka's cleaner sleeps for ever then, even if the value is changed.
        raise ConfigError("log.cleaner.io.max.bytes.per.second", rate, "0 would stop compaction for ever")
    load = config.double("log.cleaner.io.buffer.load.factor")
    if not 0 < load < math.inf:
        # Apache Kafka's cleaner finds no room for any key then, and gives up every partition.
        raise ConfigError("log.cleaner.io.buffer.load.factor", load, "the value must be finite and above 0")


def _check_connections(config: BrokerConfig) -> None:
    """Reject a limit of zero: no client could connect any more to change the value."""
    for name in CONNECTION_LIMITS:
        if config.integer(name) < 1:
            raise ConfigError(name, config.integer(name), "the value must be at least 1, or no client can connect")
    overrides = parse_overrides(config.string("max.connections.per.ip.overrides"))
    if not config.integer("max.connections.per.ip") and not any(limit > 0 for limit in overrides.values()):
        reason = "0 needs max.connections.per.ip.overrides for some address, or no client can connect"
        raise ConfigError("max.connections.per.ip", 0, reason)
    queued, largest = config.integer("queued.max.request.bytes"), config.integer("socket.request.max.bytes")
    if 0 < queued < largest:
        raise ConfigError("queued.max.request.bytes", queued, "it must not be below socket.request.max.bytes")
    idle, delay = (
        config.integer("connections.max.idle.ms"),
        config.integer("connection.failed.authentication.delay.ms"),
    )
    if 0 <= idle <= delay:
        reason = f"it must be above connection.failed.authentication.delay.ms, which is {delay}"
        raise ConfigError("connections.max.idle.ms", idle, reason)


def _check_groups(config: BrokerConfig) -> None:
    for name, low, high in _bounded_keys():
        value = config.integer(name)
        if value < config.integer(low):
            raise ConfigError(name, value, f"it must be at least {low}, which is {config.integer(low)}")
        if value > config.integer(high):
            raise ConfigError(name, value, f"it must be at most {high}, which is {config.integer(high)}")
    for kind in ("consumer", "share", "streams"):
        heartbeat, session = f"group.{kind}.heartbeat.interval.ms", f"group.{kind}.session.timeout.ms"
        if config.integer(heartbeat) >= config.integer(session):
            reason = f"it must be below {session}, which is {config.integer(session)}"
            raise ConfigError(heartbeat, config.integer(heartbeat), reason)
    protocols = config.list("group.coordinator.rebalance.protocols")
    if "classic" not in protocols:
        raise ConfigError("group.coordinator.rebalance.protocols", ",".join(protocols), "classic must be among them")
    if len(config.list("group.share.assignors")) != 1:
        text = ",".join(config.list("group.share.assignors"))
        raise ConfigError("group.share.assignors", text, "the list must have exactly one member")


@cache
def _bounded_keys() -> tuple[tuple[str, str, str], ...]:
    """Group keys whose bounds are other keys: group.share.x with group.share.min.x and group.share.max.x."""
    found = []
    for name in BROKER_KEYS:
        group, _, rest = name.partition(".")
        kind, _, what = rest.partition(".")
        low, high = f"group.{kind}.min.{what}", f"group.{kind}.max.{what}"
        if group == "group" and what and low in BROKER_KEYS and high in BROKER_KEYS:
            found.append((name, low, high))
    return tuple(found)


def check_change(old: BrokerConfig, new: BrokerConfig) -> None:
    """Raise ConfigError unless a running broker may change from one config to the other."""
    for name in _THREAD_POOLS:
        before, after = old.integer(name), new.integer(name)
        if after != before and not before // 2 <= after <= before * 2:
            reason = f"at run time the value may be halved or doubled at most, from {before}"
            raise ConfigError(name, after, reason)
    for name in _FIXED_CLASSES:
        text = format_value(new.get(name))
        if new.get(name) != old.get(name) and text not in ("", BROKER_KEYS[name].default):
            raise ConfigError(name, text, "Ottla cannot load this class")
    for local, total in _LOCAL_RETENTION:
        if (new.get(local), new.get(total)) != (old.get(local), old.get(total)):
            _check_local_retention(new, local, total)


def _check_local_retention(config: BrokerConfig, local: str, total: str) -> None:
    """-2 means the total retention, -1 no limit."""
    total_value, value = config.integer(total), config.integer(local)
    if total_value >= 0 and value != -2 and not 0 <= value <= total_value:
        raise ConfigError(local, value, f"the value must be -2 or at most {total}, which is {total_value}")
