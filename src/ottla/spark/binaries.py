"""Stretches of one buffer as Arrow columns."""

from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ottla.spark.varints import Bytes, Positions

Nulls: TypeAlias = NDArray[np.bool_]


class Spans(NamedTuple):
    """Where the values of a column lie. A null has a place too, without a length."""

    starts: Positions
    stops: Positions
    nulls: Nulls


def binary_columns(data: Bytes, *columns: Spans) -> list[pa.Array]:
    """Columns whose values lie in the data row by row, and in each row in the order of the columns.

    So all boundaries rise, and are the offsets of one Arrow array over the data, which also has what lies between.
    Every column is a selection from it: one copy of the bytes, made by Arrow.
    """
    count, width = len(columns[0].starts), 2 * len(columns)
    if not count:
        return [pa.array([], pa.binary()) for _ in columns]
    bounds = np.empty(width * count, np.int32)
    for index, spans in enumerate(columns):
        bounds[2 * index :: width] = spans.starts
        bounds[2 * index + 1 :: width] = spans.stops
    whole = pa.BinaryArray.from_buffers(
        pa.binary(), width * count - 1, [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    )
    rows = np.arange(0, width * count, width, dtype=np.int32)
    return [
        whole.take(pa.array(rows + 2 * index, mask=spans.nulls if spans.nulls.any() else None))
        for index, spans in enumerate(columns)
    ]
