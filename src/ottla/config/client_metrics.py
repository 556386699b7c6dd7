"""Values of one client metrics subscription (KIP-714)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.config.definition import ConfigError, UnknownKeyError, Value
from ottla.config.keys import CLIENT_METRICS_KEYS
from ottla.config.values import parse, usable

if TYPE_CHECKING:
    from collections.abc import Mapping

_SELECTORS = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


def client_metrics_values(overrides: Mapping[str, str]) -> dict[str, Value | None]:
    own, _ = usable(CLIENT_METRICS_KEYS, overrides)
    return {name: own.get(name, parse(key, key.default or "")) for name, key in CLIENT_METRICS_KEYS.items()}


def validate_client_metrics_overrides(overrides: Mapping[str, str]) -> None:
    """Raise ConfigError for an unknown name or an invalid value."""
    for name in overrides:
        if name not in CLIENT_METRICS_KEYS:
            raise UnknownKeyError("client metrics", name)
    for problem in usable(CLIENT_METRICS_KEYS, overrides)[1]:
        raise problem
    matches = client_metrics_values(overrides)["match"]
    if isinstance(matches, tuple):
        for entry in matches:
            _check_match(entry)


def _check_match(entry: str) -> None:
    import re  # Imported here because it is rarely needed and slows down every start.

    selector, equals, pattern = entry.partition("=")
    if not equals or selector.strip() not in _SELECTORS or "=" in pattern:
        raise ConfigError("match", entry, f"write selector=pattern with one of {', '.join(_SELECTORS)}")
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ConfigError("match", entry, f"the pattern is not a regular expression: {error}") from None
