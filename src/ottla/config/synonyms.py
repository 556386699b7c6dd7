"""Keys with the same meaning: other time units, older names, and keys with a listener prefix."""

_MINUTE_MS = 60_000
_HOUR_MS = 3_600_000

FALLBACKS: dict[str, tuple[tuple[str, int], ...]] = {
    "log.retention.ms": (
        ("log.retention.ms", 1),
        ("log.retention.minutes", _MINUTE_MS),
        ("log.retention.hours", _HOUR_MS),
    ),
    "log.roll.ms": (("log.roll.ms", 1), ("log.roll.hours", _HOUR_MS)),
    "log.roll.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", _HOUR_MS)),
    "log.flush.interval.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
    "zookeeper.connection.timeout.ms": (("zookeeper.connection.timeout.ms", 1), ("zookeeper.session.timeout.ms", 1)),
    "log.dirs": (("log.dirs", 1), ("log.dir", 1)),
}
"""For a key that may be unset: the keys that give its value, in order, each with the factor between the units."""

_SYNONYMS = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
_LISTENER_PREFIX = "listener.name."
_MECHANISM_KEYS = (
    "connections.max.reauth.ms",
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
)
"""Keys that may be set for one SASL mechanism of a listener. The name of the mechanism is then before the key."""


def base_name(name: str) -> str:
    """The key of listener.name.<listener>.<key>, which overrides the key for one listener (KIP-103)."""
    if not name.startswith(_LISTENER_PREFIX):
        return name
    key = name[len(_LISTENER_PREFIX) :].partition(".")[2] or name
    for mechanism_key in _MECHANISM_KEYS:
        if key.endswith("." + mechanism_key):
            return mechanism_key
    return key


def broker_synonyms(name: str) -> tuple[str, ...]:
    """The names that DescribeConfigs looks up for a broker key, in order of precedence."""
    if name.startswith(_LISTENER_PREFIX):
        return (name, base_name(name))
    if name == "log.flush.interval.ms":
        return (name, "log.flush.scheduler.interval.ms")
    for group in _SYNONYMS:
        if name in group:
            return group
    return (name,)
