"""Places in a topic as people write them: an offset, a distance from the end, a date and time, or a time ago."""

import enum
import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime

FORMS = "earliest, latest, an offset, -N for the last N records, 2026-01-31T13:00:00, or -1h for one hour ago"

_NAMES = {"earliest": "earliest", "beginning": "earliest", "start": "earliest", "latest": "latest", "end": "latest"}
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")
_ISO_DURATION = re.compile(
    r"P(?:(?P<w>\d+)W)?(?:(?P<d>\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?"
)


class Kind(enum.Enum):
    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    FROM_END = "from end"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Position:
    kind: Kind
    value: int = 0
    """An offset, a number of records before the end, or a timestamp in milliseconds."""


EARLIEST = Position(Kind.EARLIEST)
LATEST = Position(Kind.LATEST)


def parse_position(text: str, now: float | None = None) -> Position:
    """Raises ValueError with a text that lists the accepted forms."""
    text = text.strip()
    if text in _NAMES:
        return Position(Kind(_NAMES[text]))
    if text.isascii() and text.isdecimal():
        return Position(Kind.OFFSET, int(text))
    if re.fullmatch(r"-[0-9]+", text):
        return Position(Kind.FROM_END, -int(text))
    if text.startswith("-"):
        return Position(Kind.TIME, int(((time.time() if now is None else now) - parse_duration(text[1:])) * 1000))
    try:
        return Position(Kind.TIME, parse_datetime(text))
    except ValueError:
        raise ValueError(f"{text!r} is none of these: {FORMS}") from None


def parse_duration(text: str) -> float:
    """Seconds in `90s`, `1h30m`, `2d`, or in ISO 8601's form `PT1H30M`, which Kafka's tools take."""
    if (iso := _ISO_DURATION.fullmatch(text.upper())) is not None and any(iso.groups()):
        return sum(float(amount) * _SECONDS[unit] for unit, amount in iso.groupdict().items() if amount)
    parts = _PART.findall(text)
    if not parts or "".join(amount + unit for amount, unit in parts) != text:
        raise ValueError(f"{text!r} is not a duration such as 90s, 1h30m, 2d or PT1H")
    return sum(float(amount) * _SECONDS[unit] for amount, unit in parts)


def parse_datetime(text: str) -> int:
    """Milliseconds since 1970 of an ISO 8601 date and time. Without a time zone it is UTC, as in Kafka's tools."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a date and time such as 2026-01-31T13:00:00") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)
