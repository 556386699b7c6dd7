import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.config.checks import ListOf
from ottla.config.definition import ConfigError, Importance, Key, Kind, Value
from ottla.config.values import format_value, parse


def key(kind: Kind, check: ListOf | None = None) -> Key:
    return Key("some.key", kind, None, Importance.LOW, "For tests.", check)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Kind.BOOLEAN, "true", True),
        (Kind.BOOLEAN, " FALSE ", False),
        (Kind.INT, "+5", 5),
        (Kind.INT, " -2147483648\t", -(2**31)),
        (Kind.SHORT, "32767", 32767),
        (Kind.LONG, "9223372036854775807", 2**63 - 1),
        (Kind.DOUBLE, "1e-1", 0.1),
        (Kind.STRING, "  a b ", "a b"),
        (Kind.STRING, "", ""),
        (Kind.CLASS, "a.B", "a.B"),
        (Kind.PASSWORD, " secret ", "secret"),
        (Kind.LIST, "", ()),
        (Kind.LIST, " a , b,a", ("a", "b", "a")),
    ],
)
def test_text_becomes_a_value(kind: Kind, text: str, value: Value) -> None:
    parsed = parse(key(kind), text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Kind.BOOLEAN, "yes"),
        (Kind.BOOLEAN, ""),
        (Kind.BOOLEAN, "1"),
        (Kind.INT, "2147483648"),
        (Kind.INT, "0x10"),
        (Kind.INT, "1_0"),
        (Kind.INT, "1.0"),
        (Kind.INT, "+"),
        (Kind.INT, ""),
        (Kind.SHORT, "32768"),
        (Kind.LONG, "9223372036854775808"),
        (Kind.LONG, "ten"),
        (Kind.DOUBLE, "1_0.0"),
        (Kind.DOUBLE, "half"),
    ],
)
def test_a_refusal_names_key_and_value(kind: Kind, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(key(kind), text)
    assert re.match(
        rf"Invalid value {re.escape(text)} for configuration some\.key: (Not a|Expected)", str(caught.value)
    )
    assert (caught.value.name, caught.value.value) == ("some.key", text)


def test_repeated_members_of_a_checked_list_count_once() -> None:
    assert parse(key(Kind.LIST, ListOf()), "b, a,b") == ("b", "a")


def test_a_check_sees_the_value_and_the_error_shows_it_as_kafka_prints_it() -> None:
    with pytest.raises(ConfigError, match=r"^Invalid value a,c for configuration some.key: members of the list"):
        parse(key(Kind.LIST, ListOf("a", "b")), "a , c")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (True, "true"),
        (False, "false"),
        (-1, "-1"),
        ((), ""),
        (("a", "b"), "a,b"),
        ("x", "x"),
        (0.5, "0.5"),
        (0.0, "0.0"),
        (1.0, "1.0"),
        (0.001, "0.001"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (0.0001, "1.0E-4"),
        (-123456789.5, "-1.234567895E8"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_values_print_as_java_prints_them(value: Value | None, text: str | None) -> None:
    assert format_value(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_printed_double_reads_back_as_itself(value: float) -> None:
    text = format_value(value)
    assert text is not None
    assert parse(key(Kind.DOUBLE), text) == value
