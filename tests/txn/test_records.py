from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.model import TopicPartition
from ottla.txn.commands import PROTOCOL_1, PROTOCOL_2
from ottla.txn.records import Record, TransactionRemoved, TransactionStored, decode, encode
from ottla.txn.state import COMPLETE_ABORT, EMPTY, ONGOING, PREPARE_COMMIT, TransactionState
from ottla.wire import codec
from ottla.wire.api.transaction_records import PartitionsSchema, TransactionLogValue

PAGE = Path(__file__).parents[2] / "docs" / "formats" / "transaction-state.md"

KEY = "0000 0002 6964"
T0 = frozenset({TopicPartition("t", 0)})
FROM_KAFKA: list[tuple[str, TransactionStored]] = [
    (
        "0001000000000000000100000000ea600000000001a1e2144090ffffffffffffffff0100080000000000000001",
        TransactionStored("id", 1, 0, EMPTY, 60_000, 1_794_794_340_496, previous_producer_id=1),
    ),
    (
        "0001000000000000000d00010000ea6001020274020000000000000001a1e214e6d5000001a1e214e6d5020008000000000000000d"
        "02020002",
        TransactionStored(
            "id", 13, 1, ONGOING, 60_000, 1_794_794_383_061, 1_794_794_383_061, T0, 13, protocol=PROTOCOL_2
        ),
    ),
    (
        "000100000000000000197fff0000ea6002020274020000000000000001a1e2156617000001a1e21566170300080000000000000019"
        "0108000000000000001a02020002",
        TransactionStored(
            "id", 25, 32_767, PREPARE_COMMIT, 60_000, 1_794_794_415_639, 1_794_794_415_639, T0, 25, 26, PROTOCOL_2
        ),
    ),
    (
        "0001000000000000000900000000ea600501000001a1e214e5e4000001a1e214e5de0100080000000000000009",
        TransactionStored("id", 9, 0, COMPLETE_ABORT, 60_000, 1_794_794_382_820, 1_794_794_382_814, frozenset(), 9),
    ),
]
"""Values that Apache Kafka 4.3.1 wrote."""


@pytest.mark.parametrize("value, record", FROM_KAFKA, ids=[record.state.value for _, record in FROM_KAFKA])
def test_records_are_kafkas(value: str, record: TransactionStored) -> None:
    key = bytes.fromhex(KEY)
    assert decode(key, bytes.fromhex(value)) == record
    assert encode(record) == (key, bytes.fromhex(value))


def test_a_tombstone() -> None:
    assert encode(TransactionRemoved("id")) == (bytes.fromhex(KEY), None)
    assert decode(bytes.fromhex(KEY), None) == TransactionRemoved("id")


def test_version_0_is_read() -> None:
    old = TransactionLogValue(
        producer_id=4,
        producer_epoch=5,
        transaction_timeout_ms=6,
        transaction_status=1,
        transaction_partitions=[PartitionsSchema(topic="t", partition_ids=[0])],
        transaction_last_update_timestamp_ms=7,
        transaction_start_timestamp_ms=8,
    )
    expected = TransactionStored("id", 4, 5, ONGOING, 6, 7, 8, T0)
    assert decode(bytes.fromhex(KEY), b"\0\0" + codec.encode(old, 0)) == expected


def test_versions_of_the_future_are_left_alone() -> None:
    assert decode(bytes.fromhex("0001 0002 6964"), b"") is None
    assert decode(bytes.fromhex(KEY), b"\0\2") is None


def test_a_state_that_does_not_exist_is_an_error() -> None:
    value = b"\0\1" + codec.encode(TransactionLogValue(transaction_status=8), 1)
    with pytest.raises(ValueError, match="'id' has the unknown state 8"):
        decode(bytes.fromhex(KEY), value)


numbers = st.integers(-1, 2**62)
partitions = st.frozensets(st.builds(TopicPartition, st.sampled_from(["t", "u"]), st.integers(0, 9)), max_size=4)
stored = st.builds(
    TransactionStored,
    st.text(max_size=9),
    numbers,
    st.integers(0, 2**15 - 1),
    st.sampled_from(TransactionState),
    st.integers(1, 2**31 - 1),
    numbers,
    numbers,
    partitions,
    numbers,
    numbers,
    st.sampled_from([PROTOCOL_1, PROTOCOL_2]),
    last_producer_epoch=st.just(-1),
)


@settings(max_examples=50, derandomize=True)
@given(stored)
def test_what_is_written_is_read(record: TransactionStored) -> None:
    if record.state is EMPTY:
        record = record._replace(partitions=frozenset())
    assert decode(*encode(record)) == record


@settings(max_examples=20, derandomize=True)
@given(stored, st.integers(0, 2**15 - 1))
def test_the_epoch_before_the_last_one_is_not_stored(record: TransactionStored, epoch: int) -> None:
    assert encode(record._replace(last_producer_epoch=epoch)) == encode(record)


def test_the_example_in_the_documentation() -> None:
    blocks = PAGE.read_text().split("```\n")
    lines = next(block for block in blocks if block.startswith("key ")).splitlines()
    key, value = (bytes.fromhex(line.removeprefix(name)) for line, name in zip(lines, ("key", "value"), strict=False))
    expected: Record = TransactionStored(
        transactional_id="shop",
        producer_id=4_000,
        producer_epoch=7,
        state=PREPARE_COMMIT,
        transaction_timeout_ms=60_000,
        last_update_timestamp_ms=1_700_000_000_250,
        start_timestamp_ms=1_700_000_000_000,
        partitions=frozenset({TopicPartition("clicks", 0), TopicPartition("clicks", 3)}),
        previous_producer_id=4_000,
        protocol=PROTOCOL_2,
    )
    assert decode(key, value) == expected
    assert encode(expected) == (key, value)
