import pytest

from ottla.cli.position import Kind, Position, parse_datetime, parse_duration, parse_position


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("earliest", Position(Kind.EARLIEST)),
        ("beginning", Position(Kind.EARLIEST)),
        ("end", Position(Kind.LATEST)),
        ("42", Position(Kind.OFFSET, 42)),
        ("-5", Position(Kind.FROM_END, 5)),
        ("-1h", Position(Kind.TIME, 6_400_000)),
        ("-1h30m", Position(Kind.TIME, 4_600_000)),
        ("-PT1H", Position(Kind.TIME, 6_400_000)),
        ("1970-01-01T01:00:00", Position(Kind.TIME, 3_600_000)),
        ("1970-01-01T01:00:00.5+01:00", Position(Kind.TIME, 500)),
        ("1970-01-02", Position(Kind.TIME, 86_400_000)),
    ],
)
def test_positions(text: str, position: Position) -> None:
    assert parse_position(text, now=10_000) == position


@pytest.mark.parametrize("text", ["", "soon", "-", "-1x", "1h", "-h", "1.5"])
def test_other_texts_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"such as|none of these"):
        parse_position(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("90s", 90), ("1.5h", 5400), ("1d12h", 129_600), ("1w", 604_800), ("P1DT2H3M4.5S", 93_784.5)],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "P", "PT", "1", "1 h", "h1", "1hx"])
def test_texts_that_are_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(text)


def test_a_time_without_zone_is_utc() -> None:
    assert parse_datetime("1970-01-01T00:00:00") == parse_datetime("1970-01-01T02:00:00+02:00") == 0
