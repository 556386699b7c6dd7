"""Durations in Spark's notation: `15m`, `1 hour`, `500ms`."""

import re

_UNITS = {
    1e-6: ("us", "microsecond", "microseconds"),
    1e-3: ("", "ms", "millisecond", "milliseconds"),
    1.0: ("s", "second", "seconds"),
    60.0: ("m", "min", "minute", "minutes"),
    3600.0: ("h", "hour", "hours"),
    86400.0: ("d", "day", "days"),
}
_SECONDS = {name: seconds for seconds, names in _UNITS.items() for name in names}


def parse_duration(text: str) -> float:
    """Returns seconds. A number without a unit is in milliseconds, as elsewhere in Spark."""
    match = re.fullmatch(r"\s*([0-9]+)\s*([a-z]*)\s*", text.lower())
    if match is None or match[2] not in _SECONDS:
        raise ValueError(f"{text!r} is not a duration such as 15m")
    return int(match[1]) * _SECONDS[match[2]]
