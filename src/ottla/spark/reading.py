"""The work of a reading task: fetch its range of one partition and decode it into Arrow batches."""

import asyncio
import time
from collections.abc import Iterator

import pyarrow as pa

from ottla.client.fetch import Fetched, Fetcher, OffsetOutOfRange
from ottla.client.offsets import READ_COMMITTED, list_offsets
from ottla.errors import ErrorCode, KafkaError
from ottla.model import EARLIEST_TIMESTAMP
from ottla.records.header import iter_headers
from ottla.spark.batches import AbortedFilter, read_stretch
from ottla.spark.columns import ColumnDecoder
from ottla.spark.data_loss import DataLoss, logger, lost_range
from ottla.spark.options import ReadOptions
from ottla.spark.ranges import OffsetRange
from ottla.spark.session import Session

_USUAL_BYTES = 1024
"""Assumed size of a record before the first fetch."""
_SPARE_BYTES = 64 << 10
"""Added to each fetch, so that the last batch of a range arrives complete even if its records are larger."""


def read_range(wanted: OffsetRange, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """The records of a range. Raises DataLoss if the log no longer has all of them and failOnDataLoss is true."""
    decoder = ColumnDecoder(wanted.topic_partition, headers=options.include_headers)
    with Session(options) as session:
        reader = _RangeReader(session, wanted, options)
        while reader.position < wanted.end:
            start = reader.position
            fetched = session.run(reader.next())
            if fetched is None:
                continue
            aborted = None
            if options.fetch.isolation == READ_COMMITTED:
                aborted = AbortedFilter((each.producer_id, each.first_offset) for each in fetched.aborted)
            payloads, _ = read_stretch(fetched.records, start, wanted.end, aborted)
            yield from decoder.decode(payloads, start, wanted.end)


class _RangeReader:
    """Fetches the range in order. The next fetch is already sent while the previous response is decoded."""

    def __init__(self, session: Session, wanted: OffsetRange, options: ReadOptions) -> None:
        self.position = wanted.start
        self._client = session.client
        self._fetcher = Fetcher(session.client, wanted.topic_partition, options.fetch)
        self._wanted = wanted
        self._options = options
        self._deadline = time.monotonic() + options.poll_timeout
        self._bytes_per_offset: float = _USUAL_BYTES

    async def next(self) -> Fetched | None:
        """Fetch the batches at the position and advance it. None if the fetch returned no batch."""
        try:
            fetched = await self._fetcher.fetch(self.position, self._bytes_wanted())
        except OffsetOutOfRange:
            await self._skip_lost_offsets()
            return None
        position = _offset_after(fetched)
        if position == self.position:
            if len(fetched.records):
                name, size = self._wanted.topic_partition, self._options.fetch.max_bytes
                raise KafkaError(
                    ErrorCode.MESSAGE_TOO_LARGE,
                    f"{name} returned no complete batch at offset {self.position} within {size} bytes",
                )
            self._check_deadline(fetched)
            return None
        self._bytes_per_offset = len(fetched.records) / (position - self.position)
        self.position = position
        self._deadline = time.monotonic() + self._options.poll_timeout
        if position < self._wanted.end:
            self._fetcher.begin(position, self._bytes_wanted())
            await asyncio.sleep(0)
        return fetched

    def _bytes_wanted(self) -> int:
        """Estimated size of the rest of the range, from the last response, so that no excess bytes are fetched."""
        rest = int((self._wanted.end - self.position) * self._bytes_per_offset) + _SPARE_BYTES
        return min(rest, self._options.fetch.max_bytes)

    def _check_deadline(self, fetched: Fetched) -> None:
        """Raise TimeoutError, or skip the rest with a warning, if the log has ended before the range for too long."""
        if time.monotonic() <= self._deadline:
            return
        sentence = (
            f"{self._wanted.topic_partition} returned no records at offset {self.position} for "
            f"{self._options.poll_timeout:g} s, although the query reads up to {self._wanted.end}; its high "
            f"watermark is {fetched.high_watermark}, its last stable offset {fetched.last_stable_offset}"
        )
        if self._options.fail_on_data_loss:
            raise TimeoutError(sentence)
        logger.warning("%s", sentence)
        self.position = self._wanted.end

    async def _skip_lost_offsets(self) -> None:
        name = self._wanted.topic_partition
        sentence = lost_range(self._wanted._replace(start=self.position))
        if self._options.fail_on_data_loss:
            raise DataLoss(sentence)
        logger.warning("%s", sentence)
        answer = await list_offsets(self._client, {name: EARLIEST_TIMESTAMP})
        earliest = answer[name].offset
        self.position = min(earliest, self._wanted.end) if earliest > self.position else self._wanted.end


def _offset_after(fetched: Fetched) -> int:
    """The offset after the last complete batch, or the fetch offset if there is none."""
    offset = fetched.fetch_offset
    for _, header in iter_headers(fetched.records):
        offset = max(offset, header.next_offset)
    return offset
