"""Parses and formats values by Kafka's rules."""

from collections.abc import Mapping

from ottla.config.definition import ConfigError, Key, Kind, Value

_BITS = {Kind.INT: 32, Kind.SHORT: 16, Kind.LONG: 64}


def parse(key: Key, text: str) -> Value:
    """Parse and check the value of a key. Raises ConfigError."""
    value = _convert(key, text.strip())
    if key.check is not None:
        problem = key.check.problem(value)
        if problem is not None:
            raise ConfigError(key.name, format_value(value), problem)
    return value


def usable(keys: Mapping[str, Key], overrides: Mapping[str, str]) -> tuple[dict[str, Value], list[ConfigError]]:
    """The values of valid overrides, and the errors of invalid ones. Ignores unknown names.

    The store may have values of another release or another tool. They must not keep a broker from working.
    """
    values: dict[str, Value] = {}
    problems = []
    for name, text in overrides.items():
        if name in keys:
            try:
                values[name] = parse(keys[name], text)
            except ConfigError as error:
                problems.append(error)
    return values, problems


def _convert(key: Key, text: str) -> Value:
    kind = key.kind
    if kind in _BITS:
        return _integer(key, text)
    if kind is Kind.LIST:
        members = (member.strip() for member in text.split(",")) if text else ()
        # KIP-1161: repeated members are removed, except in lists without a check, where their number may matter.
        return tuple(dict.fromkeys(members)) if key.check is not None else tuple(members)
    if kind is Kind.BOOLEAN:
        lower = text.lower()
        if lower not in {"true", "false"}:
            raise ConfigError(key.name, text, "Expected value to be either true or false")
        return lower == "true"
    if kind is Kind.DOUBLE:
        return _double(key, text)
    return text


def _integer(key: Key, text: str) -> int:
    digits = text[1:] if text[:1] in {"+", "-"} else text
    if digits.isascii() and digits.isdigit():
        value = int(text)
        limit = 1 << (_BITS[key.kind] - 1)
        if -limit <= value < limit:
            return value
    raise ConfigError(key.name, text, f"Not a number of type {key.kind.name}")


def _double(key: Key, text: str) -> float:
    try:
        if "_" not in text:
            return float(text)
    except ValueError:
        pass
    raise ConfigError(key.name, text, "Not a number of type DOUBLE")


def format_value(value: Value | None) -> str | None:
    """The text for DescribeConfigs; None for None."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return _format_double(value) if isinstance(value, float) else str(value)


def _format_double(value: float) -> str:
    """Format like Java: plain between 0.001 and 10 million, else one digit, a fraction and an exponent."""
    if value != value or value in {float("inf"), float("-inf")}:
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return str(value)
    from decimal import Decimal  # Imported here because it is rarely needed and slows down every start.

    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    fraction = "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{digits[0]}.{fraction}E{exponent + len(digits) - 1}"
