"""Connection limits per address: max.connections.per.ip.overrides."""

import re
from functools import lru_cache

from ottla.config.definition import ConfigError

_KEY = "max.connections.per.ip.overrides"
_HOST = re.compile(r"[0-9a-zA-Z\-%._:]+")


@lru_cache(maxsize=8)
def parse_overrides(text: str) -> dict[str, int]:
    """The limit of each address in a list of address:number.

    Ottla compares only addresses, so a limit for a host name has no effect.
    """
    limits = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        host, colon, number = (part.strip() for part in entry.rpartition(":"))
        if not colon or not _HOST.fullmatch(host):
            raise ConfigError(_KEY, text, f"write address:number instead of {entry}")
        try:
            limits[_normal_form(host)] = int(number)
        except ValueError:
            raise ConfigError(_KEY, text, f"{number} in {entry} is not an integer") from None
    return limits


def _normal_form(host: str) -> str:
    from ipaddress import ip_address  # Imported here because it is rarely needed and slows down every start.

    try:
        return str(ip_address(host))
    except ValueError:
        return host
