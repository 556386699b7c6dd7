"""The constants of the record batch format v2. `docs/formats/record-batch.md` has the picture and a worked example."""

import struct
from enum import IntEnum
from typing import Final, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview

MAGIC: Final = 2

LOG_OVERHEAD: Final = 12
"""Bytes of the base offset and the batch length. The batch length does not count them."""

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE: Final = 61

BATCH_LENGTH_AT: Final = 8
MAGIC_AT: Final = 16
CRC_AT: Final = 17
ATTRIBUTES_AT: Final = 21
"""The CRC covers the bytes from here to the end, so a leader can set offset and epoch without a new CRC."""

MAX_TIMESTAMP_AT: Final = 35

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME_FLAG: Final = 0x08
TRANSACTIONAL_FLAG: Final = 0x10
CONTROL_FLAG: Final = 0x20
DELETE_HORIZON_FLAG: Final = 0x40

MIN_RECORD_SIZE: Final = 7
"""Length, attributes, timestamp delta, offset delta, key length, value length, header count: one byte each."""

MAX_SEQUENCE: Final = 2**31 - 1
MIN_INT64: Final = -(2**63)
MAX_INT64: Final = 2**63 - 1


class Codec(IntEnum):
    """The compression of a batch: the lowest bits of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def kafka_name(self) -> str:
        """The value of `compression.type` for this codec: `none`, `gzip`, ..., `zstd`."""
        return self.name.lower()

    @classmethod
    def named(cls, kafka_name: str) -> "Codec":
        """The codec of a `compression.type` value. Topic settings use `uncompressed` for none."""
        return cls.NONE if kafka_name == "uncompressed" else cls[kafka_name.upper()]
