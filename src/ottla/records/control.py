"""Control records: the markers with which a broker ends a transaction in a partition (KIP-98).

A marker is a batch with one record. Its header has the producer's id and epoch, but no sequence number. The record's
key has the type, commit or abort, and its value has the epoch of the coordinator. Consumers skip markers.
"""

import struct
from typing import NamedTuple

from ottla.errors import ErrorCode
from ottla.records.builder import NewRecord, build_batch
from ottla.records.format import HEADER_SIZE, Buffer
from ottla.records.header import BatchHeader
from ottla.records.invalid import InvalidBatch
from ottla.records.reader import read_records

_KEY = struct.Struct(">hh")
"""Version and type. Newer versions only append fields."""

_VALUE = struct.Struct(">hi")
"""Version and the coordinator's epoch. Newer versions only append fields."""

_VERSION = 0
_ABORT = 0
_COMMIT = 1

MARKER_SIZE = HEADER_SIZE + 7 + _KEY.size + _VALUE.size
"""Bytes of a marker batch: header, seven varints of one byte, key and value."""


class EndTransactionMarker(NamedTuple):
    """The end of a transaction. The transaction coordinator sends it to every partition of the transaction."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool


def build_marker(marker: EndTransactionMarker, timestamp: int, *, log_append_time: bool = False) -> bytearray:
    """The batch that a leader appends. `log_append_time` is for topics with `message.timestamp.type=LogAppendTime`."""
    key = _KEY.pack(_VERSION, _COMMIT if marker.committed else _ABORT)
    value = _VALUE.pack(_VERSION, marker.coordinator_epoch)
    return build_batch(
        [NewRecord(key, value, (), timestamp)],
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transactional=True,
        control=True,
        log_append_time=timestamp if log_append_time else None,
    )


def read_marker(batch: Buffer, header: BatchHeader) -> EndTransactionMarker | None:
    """The marker in a control batch; None if the batch is empty or has another type of control record.

    Compaction removes the marker of a transaction without remaining records, and may keep the empty batch. Raises
    InvalidBatch.
    """
    if header.record_count == 0:
        return None
    record = read_records(batch)[0]
    key, value = record.key or b"", record.value or b""
    if len(key) < _KEY.size:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, f"the key of a control record has {len(key)} bytes")
    key_version, kind = _KEY.unpack_from(key)
    if key_version < 0:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, f"version {key_version} of a control record is unknown")
    if kind not in (_ABORT, _COMMIT):
        return None
    if len(value) < _VALUE.size:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, f"the value of a marker has {len(value)} bytes")
    value_version, coordinator_epoch = _VALUE.unpack_from(value)
    if value_version < 0:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, f"version {value_version} of a marker is unknown")
    return EndTransactionMarker(header.producer_id, header.producer_epoch, coordinator_epoch, kind == _COMMIT)
