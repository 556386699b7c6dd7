import pytest

from ottla.config.checks import ListOf, NotEmpty, OffsetReset, OneOf, Range, ThrottledReplicas, at_least, between
from ottla.config.definition import Check, Value


@pytest.mark.parametrize(
    ("check", "value"),
    [
        (at_least(1), 1),
        (between(0, 1), 0.0),
        (between(0, 1), 1.0),
        (Range(1, 9, also=-1), -1),
        (Range(1, 9, also=-1), 9),
        (OneOf("a", "b"), "b"),
        (OneOf("A", ignore_case=True), "a"),
        (ListOf("a", "b"), ("a", "b")),
        (ListOf("a"), ()),
        (ListOf(may_be_empty=False), ("anything",)),
        (NotEmpty(), "x"),
        (ThrottledReplicas(), ()),
        (ThrottledReplicas(), ("*",)),
        (ThrottledReplicas(), ("0:1", "12:345")),
        (OffsetReset(), "latest"),
        (OffsetReset(), "earliest"),
        (OffsetReset(), "by_duration:PT1H"),
        (OffsetReset(), "by_duration:P2DT3H4M5.5S"),
        (OffsetReset(), "by_duration:P1D"),
    ],
)
def test_allowed(check: Check, value: Value) -> None:
    assert check.problem(value) is None


@pytest.mark.parametrize(
    ("check", "value", "problem"),
    [
        (at_least(1), 0, "Value must be at least 1"),
        (between(0, 1), 1.5, "Value must be no more than 1"),
        (between(0, 1), -0.5, "Value must be at least 0"),
        (between(0, 1), float("nan"), "Value must be at least 0"),
        (Range(1, 9, also=-1), 0, "Value must be between 1 and 9, or -1"),
        (OneOf("a", "b"), "A", "String must be one of: a, b"),
        (OneOf("A", ignore_case=True), "b", "String must be one of (case insensitive): A"),
        (ListOf("a", "b"), ("a", "c"), "members of the list must be one of a, b"),
        (ListOf("a"), ("a", ""), "members of the list must not be empty"),
        (ListOf(may_be_empty=False), (), "the list must not be empty"),
        (NotEmpty(), "", "the value must not be empty"),
        (ThrottledReplicas(), ("*", "0:1"), "the value must be `*` or a list of partition:broker pairs"),
        (ThrottledReplicas(), ("none",), "the value must be `*` or a list of partition:broker pairs"),
        (ThrottledReplicas(), ("0:x",), "the value must be `*` or a list of partition:broker pairs"),
    ],
)
def test_refused(check: Check, value: Value, problem: str) -> None:
    assert check.problem(value) == problem


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Earliest",
        "by_duration",
        "by_duration:",
        "by_duration:-PT1H",
        "by_duration:1H",
        "by_duration:P",
        "by_duration:PT",
        "by_duration:P1DT",
        "by_duration:PT1",
        "by_duration:PTH",
        "by_duration:PT1H2D",
        "by_duration:PT1S2M",
        "by_duration:PT1.5H",
        "by_duration:PT1.2.3S",
    ],
)
def test_offset_reset_refuses(text: str) -> None:
    assert OffsetReset().problem(text) == "the value must be latest, earliest or by_duration:PnDTnHnMn.nS"


def test_descriptions_for_the_reference_page() -> None:
    assert ListOf().describe() == ""
    assert ListOf(may_be_empty=False).describe() == "not empty"
    assert ListOf("a", "b").describe() == "list of a, b"
    assert ListOf("a", may_be_empty=False).describe() == "list of a, not empty"
    assert NotEmpty().describe() == "not empty"
