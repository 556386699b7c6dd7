"""Limits on connections from one address: max.connections.per.ip and its exceptions."""

import re
from functools import lru_cache

from ottla.config.definition import ConfigError

_KEY = "max.connections.per.ip.overrides"
_HOST = re.compile(r"[0-9a-zA-Z\-%._:]+")


@lru_cache(maxsize=8)
def parse_overrides(text: str) -> dict[str, int]:
    """The limit of each address in a list of address:number.

    Ottla compares addresses only: the limit of a host name has no effect.
    """
    limits = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        host, colon, number = (part.strip() for part in entry.rpartition(":"))
        if not colon or not _HOST.fullmatch(host):
            raise ConfigError(_KEY, text, f"write address:number instead of {entry}")
        try:
            limits[_normal_form(host)] = int(number)
        except ValueError:
            raise ConfigError(_KEY, text, f"{number} in {entry} is not a whole number") from None
    return limits


def _normal_form(host: str) -> str:
    from ipaddress import ip_address  # Rarely needed, and it would slow every start down.

    try:
        return str(ip_address(host))
    except ValueError:
        return host
