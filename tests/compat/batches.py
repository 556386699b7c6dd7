"""Record batches of format version 2, packed by hand so that a test can also pack them wrong."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import crc32c

NO_PRODUCER = -1
HEADER = struct.Struct(">qiibIhiqqqhii")
"""Base offset, length, leader epoch, magic, CRC, attributes, last offset delta, base and max timestamp, producer id,
producer epoch, base sequence, record count."""
CRC_START = 21
TRANSACTIONAL = 0x10
CONTROL = 0x20
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


@dataclass(frozen=True, slots=True)
class Batch:
    """The header of a batch as it was read."""

    base_offset: int
    size: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    records: bytes

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> int:
        return self.attributes & 0x07

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def marker(self) -> tuple[str, int]:
        """What the marker says and the epoch of the coordinator that said it. Such a record has short fields only, so
        every number of variable length in front of its key and value takes one byte."""
        key_version, kind = struct.unpack_from(">hh", self.records, 5)
        version, coordinator_epoch = struct.unpack_from(">hi", self.records, 10)
        assert (key_version, version) == (0, 0)
        return {0: "ABORT", 1: "COMMIT"}[kind], coordinator_epoch


def pack(
    values: Sequence[bytes],
    *,
    keys: Sequence[bytes | None] | None = None,
    timestamps: Sequence[int] | None = None,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = -1,
    sequence: int = -1,
    attributes: int = 0,
) -> bytes:
    """An uncompressed batch of records without headers."""
    stamps = list(timestamps or [1_700_000_000_000] * len(values))
    names = list(keys or [None] * len(values))
    records = b"".join(_record(stamps[i] - stamps[0], i, names[i], value) for i, value in enumerate(values))
    fields = (attributes, len(values) - 1, stamps[0], max(stamps), producer_id, producer_epoch, sequence, len(values))
    checked = struct.pack(">hiqqqhii", *fields) + records
    length = len(checked) + 9
    return struct.pack(">qiibI", 0, length, -1, 2, crc32c.crc32c(checked)) + checked


def _record(timestamp_delta: int, offset_delta: int, key: bytes | None, value: bytes) -> bytes:
    name = varint(-1) if key is None else varint(len(key)) + key
    body = b"\x00" + varint(timestamp_delta) + varint(offset_delta) + name + varint(len(value)) + value + b"\x00"
    return varint(len(body)) + body


def varint(number: int) -> bytes:
    """Zigzag, then seven bits to a byte, the lowest first."""
    rest = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append((rest & 0x7F) | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def unpack(records: bytes | None) -> list[Batch]:
    """The headers of all whole batches; a fetch may end with a part of one."""
    data, batches = records or b"", []
    while len(data) >= HEADER.size:
        (
            base_offset,
            length,
            _,
            magic,
            crc,
            attributes,
            last_delta,
            base_time,
            max_time,
            producer,
            epoch,
            sequence,
            count,
        ) = HEADER.unpack_from(data)
        size = 12 + length
        if size > len(data):
            break
        assert magic == 2
        assert crc == crc32c.crc32c(data[CRC_START:size])
        times = (base_time, max_time)
        body = data[HEADER.size : size]
        batches.append(Batch(base_offset, size, attributes, last_delta, *times, producer, epoch, sequence, count, body))
        data = data[size:]
    return batches
