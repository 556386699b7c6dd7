"""The options of the source `ottla-log`."""

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.client.offsets import READ_COMMITTED
from ottla.spark.options import OptionError, boolean, isolation_level, split_options
from ottla.spark.selection import Selection, parse_selection

_SELECTION = ("assign", "subscribe", "subscribePattern")
_BY_LOWER_NAME = {name.lower(): name for name in ("path", "includeHeaders", *_SELECTION)}


@dataclass(frozen=True, slots=True)
class LogOptions:
    path: str
    selection: Selection | None
    include_headers: bool
    committed: bool


def parse_log_options(given: Mapping[str, str]) -> LogOptions:
    """Raises OptionError."""
    options, kafka = split_options(given, _BY_LOWER_NAME, "log source")
    level = isolation_level(kafka.pop("isolation.level", None))
    if kafka:
        raise OptionError(f"the ottla log source uses no broker, so kafka.{min(kafka)} cannot be set")
    if not options.get("path"):
        raise OptionError("set the data directory with load(path) or the option path")
    chosen = any(name in options for name in _SELECTION)
    try:
        selection = parse_selection(options) if chosen else None
    except ValueError as error:
        raise OptionError(str(error)) from None
    return LogOptions(
        path=options["path"].removeprefix("file://"),
        selection=selection,
        include_headers=boolean(options, "includeHeaders", default=False),
        committed=level == READ_COMMITTED,
    )
