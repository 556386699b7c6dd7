import struct

import pytest
from aiokafka.record.control_record import ABORT_MARKER, COMMIT_MARKER, ControlRecord
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch

from ottla.records.builder import NewRecord, build_batch
from ottla.records.control import MARKER_SIZE, EndTransactionMarker, build_marker, read_marker
from ottla.records.header import read_header
from ottla.records.invalid import InvalidBatch
from ottla.records.reader import read_records
from ottla.records.rewrite import assign
from ottla.records.validate import validate_batch

NOW_MS = 1_700_000_000_000

FROM_KAFKA = [
    (
        "000000000000004000000042000000000280b06c8b0030000000000000018bcfe568a00000018bcfe568a00000000000000003000d"
        "ffffffff000000012000000008000000010c00000000000100",
        EndTransactionMarker(3, 13, 1, committed=True),
        64,
        NOW_MS + 160,
    ),
    (
        "000000000000004e000000420000000002fcc062df0030000000000000018bcfe568b20000018bcfe568b200000000000000010004"
        "ffffffff000000012000000008000000000c00000000000100",
        EndTransactionMarker(1, 4, 1, committed=False),
        78,
        NOW_MS + 178,
    ),
]
"""Markers that Apache Kafka 4.3.1 wrote: their bytes and their fields."""


def control_batch(key: bytes | None, value: bytes | None) -> bytearray:
    return build_batch(
        [NewRecord(key, value, (), NOW_MS)], producer_id=7, producer_epoch=2, transactional=True, control=True
    )


def read(batch: bytes | bytearray) -> EndTransactionMarker | None:
    return read_marker(batch, read_header(batch))


@pytest.mark.parametrize(("data", "marker", "offset", "timestamp"), FROM_KAFKA)
def test_markers_are_kafkas(data: str, marker: EndTransactionMarker, offset: int, timestamp: int) -> None:
    batch = build_marker(marker, timestamp)
    assign(batch, read_header(batch), offset, 0)
    assert batch.hex() == data
    assert len(batch) == MARKER_SIZE
    assert read(bytes.fromhex(data)) == marker


@pytest.mark.parametrize(("committed", "expected"), [(True, COMMIT_MARKER), (False, ABORT_MARKER)])
def test_a_client_understands_a_marker(committed: bool, expected: ControlRecord) -> None:
    batch = AiokafkaBatch(bytes(build_marker(EndTransactionMarker(7, 2, 5, committed), NOW_MS)))
    assert batch.validate_crc()
    assert batch.is_control_batch
    assert batch.is_transactional
    assert (batch.producer_id, batch.producer_epoch) == (7, 2)
    (record,) = batch
    assert record.key is not None
    assert ControlRecord.parse(record.key) == expected


def test_times_of_a_topic_with_log_append_time() -> None:
    batch = build_marker(EndTransactionMarker(7, 2, 5, committed=True), NOW_MS, log_append_time=True)
    assert read_header(batch).log_append_time
    assert [record.timestamp for record in read_records(batch)] == [NOW_MS]
    assert read(batch) == EndTransactionMarker(7, 2, 5, committed=True)


def test_newer_versions_are_read_as_the_one_that_is_known() -> None:
    batch = control_batch(struct.pack(">hhb", 1, 1, 9), struct.pack(">hib", 3, 12, 9))
    assert read(batch) == EndTransactionMarker(7, 2, 12, committed=True)


def test_other_control_records_are_no_markers() -> None:
    """For example a leader change, which Kafka writes to its metadata log."""
    assert read(control_batch(struct.pack(">hh", 0, 2), b"")) is None


def test_an_empty_batch_is_what_compaction_leaves_of_a_marker() -> None:
    batch = build_marker(EndTransactionMarker(7, 2, 5, committed=True), NOW_MS)
    assert read_marker(batch, read_header(batch)._replace(record_count=0)) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, struct.pack(">hi", 0, 1)),
        (b"\0\0\0", struct.pack(">hi", 0, 1)),
        (struct.pack(">hh", -1, 0), struct.pack(">hi", 0, 1)),
        (struct.pack(">hh", 0, 0), None),
        (struct.pack(">hh", 0, 1), b"\0\0\0\0\0"),
        (struct.pack(">hh", 0, 1), struct.pack(">hi", -1, 1)),
    ],
)
def test_what_cannot_be_a_marker_is_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(InvalidBatch):
        read(control_batch(key, value))


def test_no_client_may_send_one() -> None:
    with pytest.raises(InvalidBatch, match="control records"):
        validate_batch(memoryview(build_marker(EndTransactionMarker(7, 2, 5, committed=True), NOW_MS)))
