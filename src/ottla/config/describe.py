"""The entries of a DescribeConfigs response, for each kind of resource."""

from __future__ import annotations

from enum import IntEnum
from itertools import dropwhile
from typing import TYPE_CHECKING, NamedTuple

from ottla.config.client_metrics import client_metrics_values
from ottla.config.definition import Key, Update, Value
from ottla.config.group import group_values
from ottla.config.keys import BROKER_KEYS, CLIENT_METRICS_KEYS, GROUP_KEYS, TOPIC_KEYS
from ottla.config.synonyms import base_name, broker_synonyms
from ottla.config.topic import topic_values
from ottla.config.values import format_value, usable

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ottla.config.broker import BrokerConfig


class Source(IntEnum):
    """The layer that a value comes from, with Kafka's ids."""

    UNKNOWN = 0
    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    DYNAMIC_CLIENT_METRICS = 7
    DYNAMIC_GROUP = 8


class Synonym(NamedTuple):
    name: str
    value: str | None
    source: Source


class ConfigEntry(NamedTuple):
    name: str
    value: str | None
    """None if the key is unset or sensitive."""
    read_only: bool
    source: Source
    sensitive: bool
    synonyms: tuple[Synonym, ...]
    """All layers that have a value, the layer in effect first."""
    kind: int
    """The id of the type; 0 for a key that is not in the table."""
    documentation: str | None


def describe_topic(
    broker: BrokerConfig, overrides: Mapping[str, str], names: Collection[str] = ()
) -> list[ConfigEntry]:
    """Every topic key, or only those in `names`."""
    values = topic_values(broker, overrides)
    entries = []
    for key in _chosen(TOPIC_KEYS, overrides, names):
        own = _own(key, overrides, values, Source.DYNAMIC_TOPIC)
        inherited = _broker_layers(broker, key.server_key) if key.server_key is not None else ()
        entries.append(_entry(key, values[key.name], (*own, *inherited)))
    return entries


def describe_group(
    broker: BrokerConfig, overrides: Mapping[str, str], names: Collection[str] = ()
) -> list[ConfigEntry]:
    """Every group key, or only those in `names`."""
    values = group_values(broker, overrides)
    entries = []
    for key in _chosen(GROUP_KEYS, overrides, names):
        own = _own(key, overrides, values, Source.DYNAMIC_GROUP)
        if key.server_key is not None:
            inherited = _broker_layers(broker, key.server_key)
        else:
            inherited = (Synonym(key.name, key.default, Source.DEFAULT),)
        entries.append(_entry(key, values[key.name], (*own, *inherited)))
    return entries


def describe_client_metrics(overrides: Mapping[str, str], names: Collection[str] = ()) -> list[ConfigEntry]:
    """Every key of a client metrics subscription, or only those in `names`."""
    values = client_metrics_values(overrides)
    return [
        _entry(key, values[key.name], _own(key, overrides, values, Source.DYNAMIC_CLIENT_METRICS))
        for key in _chosen(CLIENT_METRICS_KEYS, overrides, names)
    ]


def describe_broker(broker: BrokerConfig, names: Collection[str] = ()) -> list[ConfigEntry]:
    """Every broker key and every other name that is set on this broker, or only those in `names`."""
    given = {**broker.static, **broker.cluster, **broker.per_broker}
    listed = {name for name, key in BROKER_KEYS.items() if not key.internal} | given.keys()
    return [
        _broker_entry(name, broker.parsed.get(name, given.get(name)), _broker_layers(broker, name))
        for name in sorted(listed)
        if not names or name in names
    ]


def describe_broker_default(broker: BrokerConfig, names: Collection[str] = ()) -> list[ConfigEntry]:
    """The dynamic values that are set for all brokers of the cluster."""
    return [
        _broker_entry(name, text, (_synonym(name, text, Source.DYNAMIC_DEFAULT_BROKER),))
        for name, text in sorted(broker.cluster.items())
        if not names or name in names
    ]


def _chosen(table: Mapping[str, Key], overrides: Mapping[str, str], names: Collection[str]) -> list[Key]:
    return [
        key for name, key in table.items() if (not key.internal or name in overrides) and (not names or name in names)
    ]


def _own(
    key: Key, overrides: Mapping[str, str], values: Mapping[str, Value | None], source: Source
) -> tuple[Synonym, ...]:
    """The resource's own value, unless it is invalid."""
    own, _ = usable({key.name: key}, overrides)
    return (Synonym(key.name, format_value(values[key.name]), source),) if key.name in own else ()


def _entry(key: Key, value: Value | None, synonyms: tuple[Synonym, ...]) -> ConfigEntry:
    return ConfigEntry(
        name=key.name,
        value=format_value(value),
        read_only=False,
        source=synonyms[0].source if synonyms else Source.DEFAULT,
        sensitive=key.sensitive,
        synonyms=synonyms,
        kind=key.kind,
        documentation=key.doc,
    )


def _broker_entry(name: str, value: Value | None, synonyms: tuple[Synonym, ...]) -> ConfigEntry:
    key = BROKER_KEYS.get(base_name(name))
    sensitive = _is_sensitive(name)
    return ConfigEntry(
        name=name,
        value=None if sensitive else format_value(value),
        read_only=name not in BROKER_KEYS or BROKER_KEYS[name].update is Update.READ_ONLY,
        source=synonyms[0].source if synonyms else Source.DEFAULT,
        sensitive=sensitive,
        synonyms=synonyms,
        kind=key.kind if key is not None else 0,
        documentation=key.doc if key is not None else None,
    )


def _is_sensitive(name: str) -> bool:
    """Whether a key is sensitive. A name that is not in the table may be a password of a plug-in, so it is."""
    key = BROKER_KEYS.get(base_name(name))
    return key is None or key.sensitive


def _synonym(name: str, text: str | None, source: Source) -> Synonym:
    return Synonym(name, None if _is_sensitive(name) else text, source)


def _broker_layers(broker: BrokerConfig, name: str) -> tuple[Synonym, ...]:
    """The values of a broker key in all layers, strongest layer first.

    As in Kafka, the list begins at the key's own name: if only log.retention.hours is set, the retention of a topic
    has no synonyms.
    """
    layers: list[Synonym] = []
    candidates = broker_synonyms(name)
    for layer, source in (
        (broker.per_broker, Source.DYNAMIC_BROKER),
        (broker.cluster, Source.DYNAMIC_DEFAULT_BROKER),
        (broker.static, Source.STATIC_BROKER),
    ):
        layers += (_synonym(candidate, layer[candidate], source) for candidate in candidates if candidate in layer)
    for candidate in candidates:
        key = BROKER_KEYS.get(candidate)
        if key is not None and key.default is not None:
            layers.append(_synonym(candidate, key.default, Source.DEFAULT))
    return tuple(dropwhile(lambda synonym: synonym.name != name, layers))
