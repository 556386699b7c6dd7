import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.wire import DecodeError
from ottla.wire.primitives import (
    read_length,
    read_text,
    read_varint,
    skip_tagged_fields,
    write_length,
    write_tagged_fields,
    write_varint,
)


@pytest.mark.parametrize(
    "value, encoded",
    [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**21, "80808001"), (2**32 - 1, "ffffffff0f")],
)
def test_varints(value: int, encoded: str) -> None:
    assert write_varint(value).hex() == encoded
    assert read_varint(memoryview(bytes.fromhex("ee" + encoded + "ee")), 1) == (value, 1 + len(encoded) // 2)


@pytest.mark.parametrize("encoded", ["", "80", "ffffffff", "ffffffff10", "808080808000"])
def test_broken_varints(encoded: str) -> None:
    with pytest.raises(DecodeError):
        read_varint(memoryview(bytes.fromhex(encoded)), 0)


@settings(deadline=None, derandomize=True, database=None)
@given(st.sampled_from(["h", "i", "compact"]), st.none() | st.integers(0, 2**15 - 1))
def test_lengths_round_trip(length_format: str, length: int | None) -> None:
    encoded = write_length(length_format, length)  # type: ignore[arg-type]
    assert read_length(length_format, memoryview(encoded), 0) == (length, len(encoded))  # type: ignore[arg-type]


def test_null_is_minus_one_or_compact_zero() -> None:
    assert write_length("h", None) == b"\xff\xff"
    assert write_length("i", None) == b"\xff\xff\xff\xff"
    assert write_length("compact", None) == b"\0"
    assert write_length("compact", 0) == b"\x01"


def test_lengths_below_minus_one_are_refused() -> None:
    with pytest.raises(DecodeError, match="-2 is invalid"):
        read_length("h", memoryview(b"\xff\xfe"), 0)


def test_text_is_utf8_of_bounded_size() -> None:
    assert read_text(memoryview("é".encode()), 0, 2) == ("é", 2)
    with pytest.raises(DecodeError, match="not UTF-8"):
        read_text(memoryview(b"\xc3("), 0, 2)
    with pytest.raises(DecodeError, match="longer than 32767"):
        read_text(memoryview(bytes(40_000)), 0, 32_768)


def test_tagged_fields_are_skipped_whole() -> None:
    section = write_tagged_fields([(0, b"abc"), (200, b"")])
    assert section == b"\x02\x00\x03abc\xc8\x01\x00"
    assert skip_tagged_fields(memoryview(section + b"\xee"), 0) == len(section)
    with pytest.raises(DecodeError):
        skip_tagged_fields(memoryview(section[:4]), 0)
