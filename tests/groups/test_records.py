"""The bytes here were written by Apache Kafka 4.3.1."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.groups.records import (
    GroupRemoved,
    GroupStored,
    OffsetCommitted,
    OffsetRemoved,
    Record,
    StoredMember,
    decode,
    encode,
)
from ottla.model import ZERO_TOPIC_ID, TopicId
from ottla.wire.primitives import WireError

PAGE = Path(__file__).parents[2] / "docs" / "formats" / "consumer-offsets.md"

OFFSET_KEY = "0001000473686f700006636c69636b7300000007"
GROUP_KEY = "0002000473686f70"
TOPIC_ID = TopicId(bytes(range(1, 17)))

OFFSET = OffsetCommitted("shop", "clicks", 7, 42, 3, "note", 1_700_000_000_000)
MEMBER = StoredMember("a-1", "one", "a", "/127.0.0.1", 60_000, 10_000, b"\0\0", b"\1\2\3")
GROUP = GroupStored("shop", 5, "consumer", "range", "a-1", 1_700_000_000_000, (MEMBER,))
DYNAMIC = MEMBER._replace(group_instance_id=None)

WRITTEN: list[tuple[Record, str, str | None]] = [
    (OFFSET, OFFSET_KEY, "0004000000000000002a00000003056e6f74650000018bcfe5680000"),
    (
        OFFSET._replace(topic_id=TOPIC_ID),
        OFFSET_KEY,
        "0004000000000000002a00000003056e6f74650000018bcfe568000100100102030405060708090a0b0c0d0e0f10",
    ),
    (
        OFFSET._replace(leader_epoch=-1, expire_timestamp_ms=1_700_000_060_000),
        OFFSET_KEY,
        "0001000000000000002a00046e6f74650000018bcfe568000000018bcfe65260",
    ),
    (OffsetRemoved("shop", "clicks", 7), OFFSET_KEY, None),
    (
        GROUP,
        GROUP_KEY,
        "00030008636f6e73756d657200000005000572616e67650003612d310000018bcfe56800000000010003612d3100036f6e65000161"
        "000a2f3132372e302e302e310000ea600000271000000002000000000003010203",
    ),
    (
        GroupStored("shop", state_timestamp_ms=1_700_000_000_000),
        GROUP_KEY,
        "0003000000000000ffffffff0000018bcfe5680000000000",
    ),
    (GroupRemoved("shop"), GROUP_KEY, None),
]

ONLY_READ: list[tuple[Record, str, str]] = [
    (OFFSET._replace(leader_epoch=-1), OFFSET_KEY, "0000000000000000002a00046e6f74650000018bcfe56800"),
    (OFFSET._replace(leader_epoch=-1), "0000" + OFFSET_KEY[4:], "0000000000000000002a00046e6f74650000018bcfe56800"),
    (OFFSET._replace(leader_epoch=-1), OFFSET_KEY, "0002000000000000002a00046e6f74650000018bcfe56800"),
    (OFFSET, OFFSET_KEY, "0003000000000000002a0000000300046e6f74650000018bcfe56800"),
    (
        GROUP._replace(state_timestamp_ms=-1, members=(DYNAMIC._replace(rebalance_timeout_ms=10_000),)),
        GROUP_KEY,
        "00000008636f6e73756d657200000005000572616e67650003612d31000000010003612d31000161000a2f3132372e302e302e31"
        "0000271000000002000000000003010203",
    ),
    (
        GROUP._replace(state_timestamp_ms=-1, members=(DYNAMIC,)),
        GROUP_KEY,
        "00010008636f6e73756d657200000005000572616e67650003612d31000000010003612d31000161000a2f3132372e302e302e31"
        "0000ea600000271000000002000000000003010203",
    ),
    (
        GROUP._replace(members=(DYNAMIC,)),
        GROUP_KEY,
        "00020008636f6e73756d657200000005000572616e67650003612d310000018bcfe56800000000010003612d31000161000a2f31"
        "32372e302e302e310000ea600000271000000002000000000003010203",
    ),
    (
        GROUP,
        GROUP_KEY,
        "000409636f6e73756d6572000000050672616e676504612d310000018bcfe568000204612d31046f6e6502610b2f3132372e302e"
        "302e310000ea6000002710030000040102030000",
    ),
]


def from_hex(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


@pytest.mark.parametrize(("record", "key", "value"), WRITTEN)
def test_records_are_written_as_kafka_writes_them(record: Record, key: str, value: str | None) -> None:
    assert encode(record) == (bytes.fromhex(key), from_hex(value))


@pytest.mark.parametrize(("record", "key", "value"), [*WRITTEN, *ONLY_READ])
def test_every_version_is_read(record: Record, key: str, value: str | None) -> None:
    assert decode(bytes.fromhex(key), from_hex(value)) == record


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("0003000473686f70", "0000"),
        (OFFSET_KEY, "0005000000000000002a"),
        (GROUP_KEY, "000500"),
    ],
)
def test_what_a_newer_broker_wrote_is_left_alone(key: str, value: str) -> None:
    assert decode(bytes.fromhex(key), bytes.fromhex(value)) is None


@pytest.mark.parametrize(("record", "key", "value"), WRITTEN)
def test_a_record_that_is_cut_short_is_an_error(record: Record, key: str, value: str | None) -> None:
    if value is None:
        with pytest.raises(WireError):
            decode(bytes.fromhex(key)[:-1], None)
    else:
        with pytest.raises(WireError):
            decode(bytes.fromhex(key), bytes.fromhex(value)[:-1])


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
members = st.builds(
    StoredMember, text, st.none() | text, text, text, st.integers(0, 9), int32, st.binary(), st.binary()
)
topic_ids = st.binary(min_size=16, max_size=16)
any_record = st.one_of(
    st.builds(OffsetCommitted, text, text, int32, int64, int32, text, int64, st.just(-1), topic_ids),
    st.builds(OffsetCommitted, text, text, int32, int64, st.just(-1), text, int64, int64, st.just(ZERO_TOPIC_ID)),
    st.builds(OffsetRemoved, text, text, int32),
    st.builds(
        GroupStored,
        text,
        int32,
        st.none() | text.filter(bool),
        st.none() | text,
        st.none() | text,
        int64,
        st.lists(members, max_size=3).map(tuple),
    ),
    st.builds(GroupRemoved, text),
)


@settings(derandomize=True, max_examples=100, deadline=None)
@given(any_record)
def test_what_is_written_is_read_back(record: Record) -> None:
    assert decode(*encode(record)) == record


def test_the_example_in_the_documentation_is_true() -> None:
    keys_and_values = re.findall(r"^(?:key|value) +((?:[0-9a-f]{2} ?)+)", PAGE.read_text(), re.MULTILINE)
    offset_key, offset_value, group_key, group_value = [bytes.fromhex(text) for text in keys_and_values]
    assert decode(offset_key, offset_value) == OFFSET
    assert decode(group_key, group_value) == GROUP
