"""The constants of the record batch format v2. `docs/formats/record-batch.md` has the picture and a worked example."""

import struct
from enum import IntEnum
from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview

MAGIC = 2

LOG_OVERHEAD = 12
"""Base offset and batch length: what stands before the bytes that the batch length counts."""

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE = 61

BATCH_LENGTH_AT = 8
MAGIC_AT = 16
CRC_AT = 17
ATTRIBUTES_AT = 21
"""The CRC covers everything from here to the end, so a leader can set offset and epoch without computing it again."""

MAX_TIMESTAMP_AT = 35

CODEC_MASK = 0x07
LOG_APPEND_TIME_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40

MIN_RECORD_SIZE = 7
"""Length, attributes, timestamp delta, offset delta, key length, value length, header count: one byte each."""

MAX_SEQUENCE = 2**31 - 1
MIN_INT64 = -(2**63)
MAX_INT64 = 2**63 - 1


class Codec(IntEnum):
    """The compression of a batch, as its lowest attribute bits say it."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def kafka_name(self) -> str:
        """The value of `compression.type` that asks for this codec: `none`, `gzip`, ..., `zstd`."""
        return self.name.lower()

    @classmethod
    def named(cls, kafka_name: str) -> "Codec":
        """The codec that a `compression.type` value asks for; `uncompressed` is the topic's word for none."""
        return cls.NONE if kafka_name == "uncompressed" else cls[kafka_name.upper()]
