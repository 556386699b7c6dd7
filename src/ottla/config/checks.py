"""The rules for values of config keys, as small objects in the key table.

The messages for numbers and single words are those of Apache Kafka.
"""

from ottla.config.definition import Check, Value


class Range:
    """A number within inclusive bounds. `also` is one more allowed value."""

    __slots__ = ("also", "high", "low")

    def __init__(self, low: float, high: float | None = None, also: int | None = None) -> None:
        self.low = low
        self.high = high
        self.also = also

    def problem(self, value: Value) -> str | None:
        assert isinstance(value, int | float)
        if value == self.also or (self.low <= value and (self.high is None or value <= self.high)):
            return None
        if self.also is not None:
            return f"Value must be {self.describe()}"
        return f"Value must be no more than {self.high}" if value >= self.low else f"Value must be at least {self.low}"

    def describe(self) -> str:
        if self.high is None:
            return f"at least {self.low}"
        text = f"between {self.low} and {self.high}"
        return text if self.also is None else f"{text}, or {self.also}"


class OneOf:
    __slots__ = ("choices", "ignore_case")

    def __init__(self, *choices: str, ignore_case: bool = False) -> None:
        self.choices = choices
        self.ignore_case = ignore_case

    def problem(self, value: Value) -> str | None:
        assert isinstance(value, str)
        if (value.upper() if self.ignore_case else value) in self.choices:
            return None
        return f"String must be one of{' (case insensitive)' if self.ignore_case else ''}: {', '.join(self.choices)}"

    def describe(self) -> str:
        return "one of " + ", ".join(self.choices) + (" in any case" if self.ignore_case else "")


class ListOf:
    """A list without empty members. If there are `choices`, only these are allowed."""

    __slots__ = ("choices", "may_be_empty")

    def __init__(self, *choices: str, may_be_empty: bool = True) -> None:
        self.choices = choices
        self.may_be_empty = may_be_empty

    def problem(self, value: Value) -> str | None:
        assert isinstance(value, tuple)
        if not value and not self.may_be_empty:
            return "the list must not be empty"
        for member in value:
            if not member:
                return "members of the list must not be empty"
            if self.choices and member not in self.choices:
                return f"members of the list must be one of {', '.join(self.choices)}"
        return None

    def describe(self) -> str:
        text = "list of " + ", ".join(self.choices) if self.choices else ""
        if self.may_be_empty:
            return text
        return f"{text}, not empty" if text else "not empty"


class NotEmpty:
    __slots__ = ()

    def problem(self, value: Value) -> str | None:
        return None if value else "the value must not be empty"

    def describe(self) -> str:
        return "not empty"


class ThrottledReplicas:
    """`*` for every replica, or a list of partition:broker pairs (KIP-73)."""

    __slots__ = ()

    def problem(self, value: Value) -> str | None:
        assert isinstance(value, tuple)
        if value == ("*",) or all(self._is_pair(member) for member in value):
            return None
        return f"the value must be {self.describe()}"

    @staticmethod
    def _is_pair(text: str) -> bool:
        partition, colon, broker = text.partition(":")
        return bool(colon) and partition.isdigit() and broker.isdigit()

    def describe(self) -> str:
        return "`*` or a list of partition:broker pairs"


class OffsetReset:
    """The start position of a share group: latest, earliest, or an ISO 8601 duration ago (KIP-932)."""

    __slots__ = ()

    def problem(self, value: Value) -> str | None:
        assert isinstance(value, str)
        if value in {"latest", "earliest"}:
            return None
        word, colon, duration = value.partition(":")
        if word == "by_duration" and colon and _is_duration(duration):
            return None
        return f"the value must be {self.describe()}"

    def describe(self) -> str:
        return "latest, earliest or by_duration:PnDTnHnMn.nS"


def _is_duration(text: str) -> bool:
    """Days, hours, minutes and seconds in this order, at least one of them, as in P2DT3H4.5S."""
    if not text.upper().startswith("P"):
        return False
    days, time_mark, time = text[1:].upper().partition("T")
    if time_mark and not time:
        return False
    return bool(days or time) and _is_amounts(days, "D") and _is_amounts(time, "HMS")


def _is_amounts(text: str, units: str) -> bool:
    number = ""
    for character in text:
        if character.isdigit() or character == ".":
            number += character
            continue
        position = units.find(character)
        if position < 0 or not _is_amount(number, fraction=character == "S"):
            return False
        units, number = units[position + 1 :], ""
    return not number


def _is_amount(number: str, *, fraction: bool) -> bool:
    return number.replace(".", "", 1).isdigit() if fraction else number.isdigit()


def at_least(low: float) -> Check:
    return Range(low)


def between(low: float, high: float) -> Check:
    return Range(low, high)
