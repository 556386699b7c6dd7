import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.cli.command_error import CommandError
from ottla.cli.record_text import NewRecord, json_field, parse_json_lines, parse_lines, show

maybe_bytes = st.none() | st.binary() | st.text().map(str.encode)


def test_a_line_is_a_value() -> None:
    lines = [b"one\n", b"two\r\n", b"\n", b"last"]
    assert [record.value for record in parse_lines(lines, None, None)] == [b"one", b"two", b"", b"last"]


def test_a_separator_splits_off_the_key_once() -> None:
    (record,) = parse_lines([b"k::v::w\n"], b"::", None)
    assert (record.key, record.value) == (b"k", b"v::w")


def test_a_line_without_its_separator_is_named() -> None:
    records = parse_lines([b"k:v\n", b"oops\n"], b":", None)
    assert next(records).key == b"k"
    with pytest.raises(CommandError, match="Line 2 has no key separator ':'"):
        next(records)


def test_the_null_marker_stands_for_nothing() -> None:
    records = parse_lines([b"NULL:v\n", b"k:NULL\n"], b":", b"NULL")
    assert [(record.key, record.value) for record in records] == [(None, b"v"), (b"k", None)]


def test_json_lines() -> None:
    lines = [
        b'{"value": "v", "key": "k", "partition": 2, "headers": {"a": "1", "b": null}}\n',
        b"\n",
        b'{"value": {"n": [1, "\xc3\xa4"]}}\n',
        b'{"value": null, "timestamp": 17}\n',
        b'{"value": null, "timestamp": "1970-01-01T00:00:01"}\n',
        b'{"value": null, "timestamp": -1}\n',
        b'{"value_base64": "/wA=", "headers": [{"key": "h", "value": "x"}, {"key": "h", "value_base64": "/w=="}]}\n',
    ]
    assert list(parse_json_lines(lines)) == [
        NewRecord(b"k", b"v", [("a", b"1"), ("b", None)], 2),
        NewRecord(None, '{"n":[1,"ä"]}'.encode()),
        NewRecord(None, None, timestamp=17),
        NewRecord(None, None, timestamp=1000),
        NewRecord(None, None),
        NewRecord(None, b"\xff\x00", [("h", b"x"), ("h", b"\xff")]),
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not a record"),
        (b"[]", "must be an object"),
        (b'{"key": "k"}', "has no value"),
        (b'{"value": "v", "partition": -1}', "partition"),
        (b'{"value": "v", "partition": true}', "partition"),
        (b'{"value": "v", "timestamp": -2}', "timestamp"),
        (b'{"value": "v", "timestamp": "soon"}', "not a date and time"),
        (b'{"value": "v", "headers": 3}', "headers"),
        (b'{"value_base64": "?"}', "not base64"),
        (b'{"value_base64": 3}', "not a record"),
    ],
)
def test_a_line_that_is_no_record_is_named(line: bytes, reason: str) -> None:
    with pytest.raises(CommandError, match=r"Line 2 .*") as error:
        list(parse_json_lines([b'{"value": ""}', line]))
    assert reason in str(error.value)


@settings(max_examples=50, deadline=None)
@given(maybe_bytes, maybe_bytes, st.lists(st.tuples(st.text(), maybe_bytes)))
def test_what_consume_prints_is_what_produce_reads(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    document = {
        **json_field("key", key),
        **json_field("value", value),
        "headers": [{"key": name, **json_field("value", data)} for name, data in headers],
    }
    line = json.dumps(document).encode()
    assert list(parse_json_lines([line])) == [NewRecord(key, value, headers)]


def test_bytes_are_shown_safely() -> None:
    assert show(None, escape_controls=False) == "null"
    assert show("grün".encode(), escape_controls=True) == "grün"
    assert show(b"a\xff\x1b[2J", escape_controls=False) == "a\\xff\x1b[2J"
    assert show(b"a\tb\xff\x1b[2J\x00", escape_controls=True) == "a\tb\\xff\\x1b[2J\\x00"
