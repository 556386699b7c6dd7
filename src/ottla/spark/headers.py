"""The column of record headers: a list of keys and values per row, or null for a record without headers."""

import numpy as np
import pyarrow as pa

from ottla.errors import ErrorCode
from ottla.records.invalid import InvalidBatch
from ottla.spark.binaries import Spans, binary_columns
from ottla.spark.varints import Bytes, Positions, read_varints

HEADERS_TYPE = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))


def headers_column(data: Bytes, at: Positions, ends: Positions) -> pa.Array:
    """The headers, which lie between the end of each value and the end of its record. Raises InvalidBatch."""
    counts, at = read_varints(data, at)
    if (counts < 0).any() or (counts > ends - at).any():
        raise InvalidBatch(ErrorCode.INVALID_RECORD, "a record has an invalid number of headers")
    if not counts.any():
        if (at != ends).any():
            raise _misplaced()
        return pa.nulls(len(counts), HEADERS_TYPE)
    bounds = np.concatenate(([0], np.cumsum(counts)))
    keys, values = _entries(data, at, ends, counts, bounds)
    key_column, value_column = binary_columns(data, keys, values)
    entries = pa.StructArray.from_arrays([_text(key_column), value_column], fields=list(HEADERS_TYPE.value_type))
    none = counts == 0
    mask = pa.array(none) if none.any() else None
    offsets = pa.array(bounds.astype(np.int32))
    return pa.ListArray.from_arrays(offsets, entries, type=HEADERS_TYPE, mask=mask)


def _entries(data: Bytes, at: Positions, ends: Positions, counts: Positions, bounds: Positions) -> tuple[Spans, Spans]:
    """The positions of all header keys and values. Each pass reads the next header of every record that has one."""
    total = int(bounds[-1])
    places = np.empty((4, total), np.int64)
    nulls = np.empty(total, np.bool_)
    at = at.copy()
    rows = np.flatnonzero(counts)
    index = 0
    while rows.size:
        key_lengths, key_starts = read_varints(data, at[rows])
        if (key_lengths < 0).any() or (key_lengths >= ends[rows] - key_starts).any():
            raise InvalidBatch(ErrorCode.INVALID_RECORD, "a header key is longer than its record")
        value_lengths, value_starts = read_varints(data, key_starts + key_lengths)
        if (value_lengths > ends[rows] - value_starts).any():
            raise InvalidBatch(ErrorCode.INVALID_RECORD, "a header value is longer than its record")
        slots = bounds[rows] + index
        places[:, slots] = (
            key_starts,
            key_starts + key_lengths,
            value_starts,
            value_starts + np.maximum(value_lengths, 0),
        )
        nulls[slots] = value_lengths < 0
        at[rows] = places[3, slots]
        index += 1
        rows = rows[counts[rows] > index]
    if (at != ends).any():
        raise _misplaced()
    return Spans(places[0], places[1], np.zeros(total, np.bool_)), Spans(places[2], places[3], nulls)


def _text(keys: pa.Array) -> pa.Array:
    """Header keys are UTF-8. Invalid bytes are replaced, as in Kafka's consumer."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([key.decode(errors="replace") for key in keys.to_pylist()], pa.string())


def _misplaced() -> InvalidBatch:
    return InvalidBatch(ErrorCode.INVALID_RECORD, "a record's headers do not end at the end of the record")
