"""Our code reads batches of other implementations, and they read ours."""

from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from ottla.records.builder import NewRecord, build_batch
from ottla.records.format import Codec
from ottla.records.header import read_header
from ottla.records.reader import Record, read_records
from ottla.records.rewrite import assign, recompress, stamp_log_append_time
from ottla.records.validate import validate_batch, validate_records

from .samples import JAVA, LIBRDKAFKA, TEXT, headers, payloads

CLIENTS = [
    *(pytest.param(AiokafkaBuilder, AiokafkaBatch, codec, id=f"aiokafka-{codec.kafka_name}") for codec in Codec),
    # For its other codecs kafka-python needs packages that are not installed.
    *(
        pytest.param(KafkaPythonBuilder, KafkaPythonBatch, codec, id=f"kafka-python-{codec.kafka_name}")
        for codec in (Codec.NONE, Codec.GZIP)
    ),
]

records_of_clients = st.lists(
    st.builds(NewRecord, payloads, payloads, headers, st.integers(0, 2**42)), min_size=1, max_size=20
)


def read_by_us(batch: bytearray) -> list[Record]:
    header = validate_batch(memoryview(batch))
    validate_records(batch, header, compacted=False)
    return read_records(batch)


def read_by_them(reader: Any, batch: bytes | bytearray) -> list[Record]:
    theirs = reader(bytes(batch))
    assert theirs.validate_crc()
    return [
        Record(record.offset, record.timestamp, record.key, record.value, tuple(record.headers)) for record in theirs
    ]


def with_offsets(records: list[NewRecord], base_offset: int = 0) -> list[Record]:
    return [
        Record(base_offset + index, record.timestamp, record.key, record.value, record.headers)
        for index, record in enumerate(records)
    ]


def built_by_them(builder: Any, records: list[NewRecord], codec: Codec, **producer: int) -> bytearray:
    fields = {"is_transactional": 0, "producer_id": -1, "producer_epoch": -1, "base_sequence": -1, **producer}
    theirs = builder(magic=2, compression_type=codec, batch_size=10_000_000, **fields)
    for offset, record in enumerate(records):
        appended = theirs.append(offset, record.timestamp, record.key, record.value, list(record.headers))
        assert appended is not None
    return bytearray(theirs.build())


@pytest.mark.parametrize(("builder", "reader", "codec"), CLIENTS)
@settings(max_examples=40)
@given(records=records_of_clients)
def test_we_read_what_clients_write(builder: Any, reader: Any, codec: Codec, records: list[NewRecord]) -> None:
    assert read_by_us(built_by_them(builder, records, codec)) == with_offsets(records)


@pytest.mark.parametrize(("builder", "reader", "codec"), CLIENTS)
def test_we_read_large_batches_of_clients(builder: Any, reader: Any, codec: Codec) -> None:
    records = [NewRecord(b"key %d" % number, TEXT * 20, (("h", b"v"),), 1000 + number) for number in range(500)]
    batch = built_by_them(builder, records, codec, producer_id=7, producer_epoch=1, base_sequence=30)
    header = read_header(batch)
    assert (header.codec, header.producer_id, header.producer_epoch, header.last_sequence) == (codec, 7, 1, 529)
    assert read_by_us(batch) == with_offsets(records)


@pytest.mark.parametrize(("builder", "reader", "codec"), CLIENTS)
@settings(max_examples=40)
@given(records=records_of_clients)
def test_clients_read_what_we_write(builder: Any, reader: Any, codec: Codec, records: list[NewRecord]) -> None:
    batch = build_batch(records, codec=codec, base_offset=50)
    assert read_by_them(reader, batch) == with_offsets(records, 50)


@pytest.mark.parametrize(("builder", "reader", "codec"), CLIENTS)
def test_clients_read_what_we_rewrite(builder: Any, reader: Any, codec: Codec) -> None:
    records = [NewRecord(b"key", TEXT * 20, (("null", None),), 1000 + number) for number in range(500)]
    batch = recompress(built_by_them(builder, records, Codec.NONE), codec)
    assign(batch, read_header(batch), 90, 4)
    assert read_by_them(reader, batch) == with_offsets(records, 90)
    stamp_log_append_time(batch, 0, read_header(batch), 5555)
    assert {record.timestamp for record in read_by_them(reader, batch)} == {5555}


@pytest.mark.parametrize("codec", Codec)
def test_librdkafkas_batches(codec: Codec) -> None:
    batch = bytearray.fromhex(LIBRDKAFKA[codec])
    assert read_header(batch).codec is codec
    assert read_by_us(batch) == [
        Record(0, 1_700_000_000_000, None, TEXT, ()),
        Record(1, 1_700_000_000_001, b"k1", TEXT, (("h", b"1"), ("null", None))),
        Record(2, 1_700_000_000_002, b"k2", None, ()),
        Record(3, 1_700_000_000_003, b"k3", TEXT, ()),
    ]


@pytest.mark.parametrize("codec", Codec)
def test_java_batches(codec: Codec) -> None:
    batch = bytearray.fromhex(JAVA[codec])
    header = read_header(batch)
    assert (header.codec, header.producer_id, header.last_sequence) == (codec, 10 + codec, 0)
    assert read_by_us(batch) == [Record(0, header.max_timestamp, b"k0", TEXT, (("h", b"1"),))]


@pytest.mark.parametrize("samples", [LIBRDKAFKA, JAVA], ids=["librdkafka", "java"])
def test_without_compression_we_write_the_same_bytes(samples: dict[Codec, str]) -> None:
    batch = bytes.fromhex(samples[Codec.NONE])
    header = read_header(batch)
    assert batch == build_batch(
        [NewRecord(record.key, record.value, record.headers, record.timestamp) for record in read_records(batch)],
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        leader_epoch=header.partition_leader_epoch,
    )
