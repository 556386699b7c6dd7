"""The three tables have the replies of Apache Kafka 4.3.1 to these batches. In the second table, Ottla differs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import ErrorCode
from ottla.records.builder import NewRecord, build_batch
from ottla.records.compression import DEFAULT_LIMIT, MAX_EXPANSION, compress
from ottla.records.format import Codec
from ottla.records.header import read_header
from ottla.records.invalid import InvalidBatch
from ottla.records.validate import validate_batch, validate_records

from .samples import codecs, patched, record_lists, three_records, with_payload

OK = three_records()
SIZE = len(OK)


def refusal(batch: bytes | bytearray) -> ErrorCode:
    with pytest.raises(InvalidBatch) as refused:
        validate_batch(memoryview(batch))
    return refused.value.code


@given(record_lists, codecs)
def test_a_good_batch_gives_its_header(records: list[NewRecord], codec: Codec) -> None:
    batch = build_batch(records, codec=codec)
    assert validate_batch(memoryview(batch)) == read_header(batch)


def test_idempotent_and_transactional_batches_are_good() -> None:
    for transactional in (False, True):
        batch = build_batch(
            [NewRecord(b"k", b"v")], producer_id=0, producer_epoch=0, base_sequence=0, transactional=transactional
        )
        header = validate_batch(memoryview(batch))
        assert (header.has_producer_id, header.is_transactional) == (True, transactional)


@pytest.mark.parametrize(
    ("batch", "code"),
    [
        pytest.param(b"", ErrorCode.INVALID_RECORD, id="nothing"),
        pytest.param(OK[:40], ErrorCode.INVALID_RECORD, id="half a header"),
        pytest.param(OK[:61], ErrorCode.INVALID_RECORD, id="only a header"),
        pytest.param(OK[:-1], ErrorCode.INVALID_RECORD, id="one byte short"),
        pytest.param(OK + OK, ErrorCode.INVALID_RECORD, id="two batches"),
        pytest.param(OK + bytes(20), ErrorCode.CORRUPT_MESSAGE, id="20 bytes more"),
        pytest.param(OK + bytes(80), ErrorCode.CORRUPT_MESSAGE, id="80 bytes more"),
        pytest.param(patched(OK, 8, ">i", SIZE - 13), ErrorCode.CORRUPT_MESSAGE, id="length too small by one"),
        pytest.param(patched(OK, 8, ">i", SIZE - 11), ErrorCode.INVALID_RECORD, id="length too large by one"),
        pytest.param(patched(OK, 8, ">i", -1), ErrorCode.CORRUPT_MESSAGE, id="negative length"),
        pytest.param(patched(OK, 8, ">i", 0), ErrorCode.CORRUPT_MESSAGE, id="no length"),
        pytest.param(patched(OK, 8, ">i", 48), ErrorCode.CORRUPT_MESSAGE, id="length below the header's"),
        pytest.param(patched(OK, 16, ">b", 0), ErrorCode.INVALID_RECORD, id="magic 0"),
        pytest.param(patched(OK, 16, ">b", 1), ErrorCode.INVALID_RECORD, id="magic 1"),
        pytest.param(patched(OK, 16, ">b", 3), ErrorCode.CORRUPT_MESSAGE, id="magic 3"),
        pytest.param(patched(OK, 16, ">b", -1), ErrorCode.CORRUPT_MESSAGE, id="magic -1"),
        pytest.param(patched(OK, 0, ">q", 5), ErrorCode.INVALID_RECORD, id="base offset 5"),
        pytest.param(patched(OK, 0, ">q", -1), ErrorCode.INVALID_RECORD, id="base offset -1"),
        pytest.param(patched(OK, 57, ">i", 0), ErrorCode.INVALID_RECORD, id="no records"),
        pytest.param(patched(OK, 57, ">i", -1), ErrorCode.INVALID_RECORD, id="negative count"),
        pytest.param(patched(OK, 57, ">i", 4), ErrorCode.INVALID_RECORD, id="count and delta disagree"),
        pytest.param(patched(OK, 23, ">i", -1), ErrorCode.INVALID_RECORD, id="negative delta"),
        pytest.param(
            patched(patched(OK, 57, ">i", 10**6), 23, ">i", 10**6 - 1), ErrorCode.INVALID_RECORD, id="a million records"
        ),
        pytest.param(
            patched(patched(OK, 57, ">i", -(2**31)), 23, ">i", 2**31 - 1), ErrorCode.INVALID_RECORD, id="count wraps"
        ),
        pytest.param(patched(OK, 21, ">h", 0x20), ErrorCode.INVALID_RECORD, id="control batch"),
        pytest.param(
            build_batch([NewRecord(None, b"v")], producer_id=5, producer_epoch=0),
            ErrorCode.INVALID_RECORD,
            id="no sequence",
        ),
    ],
)
def test_kafkas_answers(batch: bytes, code: ErrorCode) -> None:
    assert refusal(batch) is code


@pytest.mark.parametrize(
    ("batch", "code"),
    [
        pytest.param(OK + b"x", ErrorCode.CORRUPT_MESSAGE, id="a byte more, which Kafka cuts off"),
        pytest.param(patched(OK, 8, ">i", 2**31 - 1), ErrorCode.INVALID_RECORD, id="two gigabytes"),
        pytest.param(patched(OK, 21, ">h", 5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, id="codec 5"),
        pytest.param(patched(OK, 21, ">h", 7), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, id="codec 7"),
        pytest.param(patched(OK, 21, ">h", 0x08), ErrorCode.INVALID_TIMESTAMP, id="LogAppendTime"),
        pytest.param(patched(OK, 21, ">h", 0x10), ErrorCode.INVALID_RECORD, id="transactional without producer id"),
        pytest.param(patched(OK, 21, ">h", 0x40), ErrorCode.INVALID_RECORD, id="delete horizon"),
        pytest.param(patched(OK, 21, ">h", 0x80), ErrorCode.INVALID_RECORD, id="unknown low bit"),
        pytest.param(patched(OK, 21, ">h", -0x8000), ErrorCode.INVALID_RECORD, id="unknown high bit"),
        pytest.param(
            build_batch([NewRecord(None, b"v")], producer_id=5, base_sequence=0),
            ErrorCode.INVALID_RECORD,
            id="no epoch",
        ),
    ],
)
def test_where_our_answer_is_not_kafkas(batch: bytes, code: ErrorCode) -> None:
    assert refusal(batch) is code


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(patched(OK, 12, ">i", 77), id="a leader epoch, which the leader overwrites"),
        pytest.param(patched(OK, 27, ">q", -2), id="a time before 1970"),
        pytest.param(patched(OK, 35, ">q", -1), id="no maximum timestamp, as from old Sarama"),
        pytest.param(patched(OK, 53, ">i", 5), id="a sequence number without a producer id"),
        pytest.param(patched(OK, 51, ">h", 5), id="an epoch without a producer id"),
        pytest.param(patched(OK, 43, ">q", -2), id="producer id -2"),
    ],
)
def test_oddities_that_kafka_takes(batch: bytearray) -> None:
    assert validate_batch(memoryview(batch)) == read_header(batch)


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_damage_to_any_byte_under_the_checksum_is_corrupt(codec: Codec, flip: int) -> None:
    batch = three_records(codec)
    for position in range(17, len(batch)):
        copy = bytearray(batch)
        copy[position] ^= flip
        assert refusal(copy) is ErrorCode.CORRUPT_MESSAGE


@given(st.binary(max_size=200))
def test_noise_is_refused(noise: bytes) -> None:
    assert refusal(noise) in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)


def test_the_most_records_that_can_fit_do() -> None:
    records = [NewRecord(None, None)] * 64
    batch = build_batch(records)
    assert len(batch) == 61 + 64 * 7
    assert validate_batch(memoryview(batch)).record_count == 64
    assert refusal(patched(patched(batch, 57, ">i", 65), 23, ">i", 64)) is ErrorCode.INVALID_RECORD


COMPRESSED = [codec for codec in Codec if codec is not Codec.NONE]


def claiming(batch: bytes | bytearray, count: int) -> bytearray:
    """The batch with another record count and a matching last offset delta."""
    return patched(patched(batch, 57, ">i", count), 23, ">i", count - 1)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_compressed_batch_cannot_claim_more_records_than_its_codec_can_expand_to(codec: Codec) -> None:
    batch = build_batch([NewRecord(None, None)], codec=codec)
    most = (len(batch) - 61) * MAX_EXPANSION[codec] // 7
    assert validate_batch(memoryview(claiming(batch, most))).record_count == most
    assert refusal(claiming(batch, most + 1)) is ErrorCode.INVALID_RECORD
    assert refusal(claiming(batch, 2**31 - 1)) is ErrorCode.INVALID_RECORD


def test_a_large_compressed_batch_cannot_claim_more_records_than_may_be_decompressed() -> None:
    batch = with_payload(build_batch([NewRecord(None, None)], codec=Codec.ZSTD), bytes(1_000_000))
    most = DEFAULT_LIMIT // 7
    assert validate_batch(memoryview(claiming(batch, most))).record_count == most
    assert refusal(claiming(batch, most + 1)) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize("count", [1, 100, 50_000])
def test_records_that_compress_well_are_good(codec: Codec, count: int) -> None:
    for record in (NewRecord(None, None), NewRecord(b"k", bytes(1000))):
        batch = build_batch([record] * count, codec=codec)
        assert validate_batch(memoryview(batch)).record_count == count


@pytest.mark.parametrize("codec", COMPRESSED)
def test_no_codec_expands_further_than_the_bound_says(codec: Codec) -> None:
    """Every codec compresses zeros best."""
    data = bytes(16 << 20)
    assert len(compress(codec, data)) * MAX_EXPANSION[codec] >= len(data)


def deep_refusal(batch: bytearray, *, compacted: bool = False, limit: int = 10_000) -> ErrorCode:
    header = validate_batch(memoryview(batch))
    with pytest.raises(InvalidBatch) as refused:
        validate_records(memoryview(batch), header, compacted=compacted, limit=limit)
    return refused.value.code


@pytest.mark.parametrize("codec", Codec)
def test_compacted_topics_want_keys(codec: Codec) -> None:
    keyed = build_batch([NewRecord(b"", b"v"), NewRecord(b"k", None)], codec=codec)
    header = validate_batch(memoryview(keyed))
    validate_records(memoryview(keyed), header, compacted=True)
    keyless = build_batch([NewRecord(b"k", b"v"), NewRecord(None, b"v")], codec=codec)
    assert deep_refusal(keyless, compacted=True) is ErrorCode.INVALID_RECORD
    validate_records(memoryview(keyless), read_header(keyless), compacted=False)


@pytest.mark.parametrize("codec", Codec)
def test_offset_deltas_count_from_zero(codec: Codec) -> None:
    """Kafka 4.3.1 stores such a batch if it is not compressed, and returns UNKNOWN_SERVER_ERROR if it is."""
    for payload in ("0c0000020101000c000004010100", "0c0000000101000c000004010100"):
        batch = build_batch([NewRecord(None, None)] * 3, codec=codec)
        batch = patched(patched(batch, 57, ">i", 2), 23, ">i", 1)
        records = compress(codec, bytes.fromhex(payload))
        assert deep_refusal(with_payload(batch, records)) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_records_that_do_not_decompress_are_corrupt(codec: Codec) -> None:
    assert deep_refusal(patched(OK, 21, ">h", codec)) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", Codec)
def test_bombs_are_refused(codec: Codec) -> None:
    batch = build_batch([NewRecord(b"k", bytes(50_000))], codec=codec)
    header = validate_batch(memoryview(batch))
    validate_records(batch, header, compacted=True, limit=60_000)
    if codec is not Codec.NONE:
        assert deep_refusal(batch, limit=10_000) is ErrorCode.MESSAGE_TOO_LARGE


def test_a_header_that_lies_about_its_records_is_found_out() -> None:
    fewer = patched(patched(OK, 57, ">i", 2), 23, ">i", 1)
    assert deep_refusal(fewer) is ErrorCode.INVALID_RECORD
    more = patched(patched(OK, 57, ">i", 4), 23, ">i", 3)
    assert deep_refusal(more) is ErrorCode.INVALID_RECORD
    beyond = patched(OK, 27, ">q", 2**63 - 1)
    assert deep_refusal(beyond) is ErrorCode.INVALID_RECORD
