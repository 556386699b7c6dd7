"""The worked examples of `docs/formats/record-batch.md` are real batches."""

from pathlib import Path

from ottla.records.builder import NewRecord, build_batch
from ottla.records.control import EndTransactionMarker, build_marker
from ottla.records.format import HEADER_SIZE
from ottla.records.header import BatchHeader, read_header
from ottla.records.reader import Record, read_records

PAGE = Path(__file__).parents[2] / "docs" / "formats" / "record-batch.md"


def worked_example(kind: str = "hex") -> bytes:
    block = PAGE.read_text().split(f"```{kind}\n")[1].split("```")[0]
    return b"".join(bytes.fromhex(line.split("   ")[0]) for line in block.splitlines())


def test_the_worked_example_reads_as_the_page_says() -> None:
    batch = worked_example()
    assert read_header(batch) == BatchHeader(
        base_offset=40,
        batch_length=90,
        partition_leader_epoch=3,
        magic=2,
        crc=0xE4F8A8E5,
        attributes=0,
        last_offset_delta=1,
        base_timestamp=1_700_000_000_000,
        max_timestamp=1_700_000_000_250,
        producer_id=4000,
        producer_epoch=0,
        base_sequence=12,
        record_count=2,
    )
    assert read_records(batch) == [
        Record(40, 1_700_000_000_000, b"order-7", b"paid", (("trace", b"\x2a"),)),
        Record(41, 1_700_000_000_250, b"order-8", None, ()),
    ]


def test_the_worked_example_is_what_the_builder_writes() -> None:
    assert worked_example() == build_batch(
        [
            NewRecord(b"order-7", b"paid", (("trace", b"\x2a"),), 1_700_000_000_000),
            NewRecord(b"order-8", None, (), 1_700_000_000_250),
        ],
        base_offset=40,
        leader_epoch=3,
        producer_id=4000,
        producer_epoch=0,
        base_sequence=12,
    )


def test_the_example_of_a_marker() -> None:
    marker = build_marker(EndTransactionMarker(1, 4, 1, committed=False), 1_700_000_000_000)
    assert worked_example("control") == marker[HEADER_SIZE:]
