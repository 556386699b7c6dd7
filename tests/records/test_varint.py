import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import ErrorCode
from ottla.records.invalid import InvalidBatch
from ottla.records.varint import encode_varint, read_varint


@pytest.mark.parametrize(
    ("number", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (-65, "8101"),
        (8191, "fe7f"),
        (8192, "808001"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
        (2**63 - 1, "feffffffffffffffff01"),
        (-(2**63), "ffffffffffffffffff01"),
    ],
)
def test_known_encodings(number: int, encoded: str) -> None:
    assert encode_varint(number).hex() == encoded
    assert read_varint(bytes.fromhex(encoded), 0) == (number, len(encoded) // 2)


@given(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=3), st.binary(max_size=3))
def test_round_trip_in_the_middle_of_other_bytes(number: int, before: bytes, after: bytes) -> None:
    encoded = encode_varint(number)
    assert read_varint(before + encoded + after, len(before)) == (number, len(before) + len(encoded))


@pytest.mark.parametrize("encoded", ["ff" * 10, "ff" * 9 + "02", "ff" * 11 + "00", "80" * 9 + "7f"])
def test_more_than_64_bits_is_refused(encoded: str) -> None:
    with pytest.raises(InvalidBatch) as refused:
        read_varint(bytes.fromhex(encoded), 0)
    assert refused.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("encoded", ["", "80", "ffff"])
def test_the_end_of_the_data_is_an_index_error(encoded: str) -> None:
    with pytest.raises(IndexError):
        read_varint(bytes.fromhex(encoded), 0)
