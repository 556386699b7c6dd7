"""Listener addresses in Kafka's form, NAME://host:port, and the map from names to security protocols."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.config.definition import ConfigError

if TYPE_CHECKING:
    from collections.abc import Collection

    from ottla.config.broker import BrokerConfig

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
DEFAULT_PROTOCOL_MAP = "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"


class Listener(NamedTuple):
    name: str
    protocol: str
    host: str
    """Empty for all interfaces. IPv6 addresses have no brackets."""
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_protocol_map(text: str) -> dict[str, str]:
    protocols = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = (part.strip() for part in entry.partition(":"))
        protocol = protocol.upper()
        if not colon or not name or protocol not in SECURITY_PROTOCOLS:
            allowed = ", ".join(SECURITY_PROTOCOLS)
            raise ConfigError("listener.security.protocol.map", entry, f"write NAME:PROTOCOL with one of {allowed}")
        protocols[name.upper()] = protocol
    return protocols


def parse_listeners(
    text: str,
    protocol_map: str = DEFAULT_PROTOCOL_MAP,
    *,
    key: str = "listeners",
    plaintext_names: Collection[str] = (),
) -> list[Listener]:
    """The listeners of the list, in order.

    `plaintext_names` need no entry in the map: in Kafka, the listener of a KRaft controller needs none.
    """
    protocols = dict.fromkeys((name.upper() for name in plaintext_names), "PLAINTEXT") | parse_protocol_map(
        protocol_map
    )
    listeners = [_parse_listener(entry, protocols, key) for entry in filter(None, map(str.strip, text.split(",")))]
    if not listeners:
        raise ConfigError(key, text, "at least one listener is needed, as in PLAINTEXT://127.0.0.1:9092")
    names = [listener.name for listener in listeners]
    if len(set(names)) < len(names):
        raise ConfigError(key, text, "each listener must have its own name")
    return listeners


def _parse_listener(entry: str, protocols: dict[str, str], key: str) -> Listener:
    name, separator, address = entry.partition("://")
    host, colon, port = address.rpartition(":")
    name = name.strip().upper()
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ConfigError(key, entry, "put an IPv6 address in brackets, as in PLAINTEXT://[::1]:9092")
    if not (separator and name and colon and port.isascii() and port.isdigit()) or "/" in host:
        raise ConfigError(key, entry, "write NAME://host:port")
    if int(port) > 65535:
        raise ConfigError(key, entry, "the port must be between 0 and 65535")
    if name not in protocols:
        raise ConfigError(key, entry, f"listener.security.protocol.map names no security protocol for {name}")
    return Listener(name, protocols[name], host, int(port))


def broker_listeners(config: BrokerConfig) -> tuple[Listener, ...]:
    """The listeners to open. Omits the listeners of a KRaft controller, which Ottla does not have."""
    found = _client_listeners(config, "listeners", config.list("listeners"))
    taken: set[tuple[str, int]] = set()
    for listener in found:
        if listener.port and (listener.host, listener.port) in taken:
            raise ConfigError("listeners", listener, "another listener has the same address")
        taken.add((listener.host, listener.port))
    return found


def advertised_listeners(config: BrokerConfig) -> tuple[Listener, ...] | None:
    """The listeners to advertise to clients. None: advertise the address that the client connected to."""
    key = "advertised.listeners"
    members = config.get(key)
    if not isinstance(members, tuple):
        return None
    found = _client_listeners(config, key, members)
    known = {listener.name for listener in broker_listeners(config)}
    for listener in found:
        if listener.name not in known:
            raise ConfigError(key, listener, f"listeners has no listener {listener.name}")
        if listener.host in {"", "0.0.0.0", "::"}:
            raise ConfigError(key, listener, "clients need the address of one interface")
    return found


def _client_listeners(config: BrokerConfig, key: str, members: tuple[str, ...]) -> tuple[Listener, ...]:
    names = config.get("controller.listener.names")
    controller = {name.upper() for name in names} if isinstance(names, tuple) else set()
    protocol_map = config.string("listener.security.protocol.map")
    plaintext = controller if protocol_map == DEFAULT_PROTOCOL_MAP else ()
    text = ",".join(members)
    found = parse_listeners(text, protocol_map, key=key, plaintext_names=plaintext)
    kept = tuple(listener for listener in found if listener.name not in controller)
    if not kept:
        raise ConfigError(key, text, "all listeners belong to the controller; clients need one, too")
    return kept


def inter_broker_listener(config: BrokerConfig) -> str:
    """The listener for connections between brokers: inter.broker.listener.name, or the first one with the protocol."""
    name = config.get("inter.broker.listener.name")
    listeners = broker_listeners(config)
    if isinstance(name, str):
        if name.upper() not in {listener.name for listener in listeners}:
            raise ConfigError("inter.broker.listener.name", name, f"listeners has no listener {name.upper()}")
        return name.upper()
    protocol = config.string("security.inter.broker.protocol")
    for listener in listeners:
        if listener.protocol == protocol:
            return listener.name
    raise ConfigError("security.inter.broker.protocol", protocol, "no listener has this protocol")
