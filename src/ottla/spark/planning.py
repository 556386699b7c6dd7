"""Plan queries: from the options and the state of the cluster to offset ranges."""

from collections.abc import Mapping

from ottla.client.client import Client
from ottla.client.offsets import list_offsets
from ottla.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition
from ottla.spark.bounds import BoundError
from ottla.spark.data_loss import lost_between, report
from ottla.spark.options import SourceOptions
from ottla.spark.ranges import OffsetRange, split_ranges


async def plan_batch(client: Client, options: SourceOptions) -> list[OffsetRange]:
    """The ranges that a batch query reads. Raises BoundError for a range that ends before its start."""
    partitions = await options.selection.partitions(client)
    isolation = options.read.fetch.isolation
    start = await options.start.resolve(client, partitions, isolation)
    end = await options.end.resolve(client, partitions, isolation)
    for each in partitions:
        if start[each] > end[each]:
            raise BoundError(
                f"{each} would be read from offset {start[each]} to {end[each]}, but the end lies before the start"
            )
    return split_ranges(
        [OffsetRange(each, start[each], end[each]) for each in partitions],
        options.min_partitions,
        options.max_records_per_partition,
    )


async def initial_offsets(client: Client, options: SourceOptions) -> dict[TopicPartition, int]:
    """The offsets at which a stream without a checkpoint starts."""
    partitions = await options.selection.partitions(client)
    return await options.start.resolve(client, partitions, options.read.fetch.isolation)


async def latest_offsets(client: Client, options: SourceOptions) -> dict[TopicPartition, int]:
    """The end offsets of all existing partitions; with read_committed, their last stable offsets."""
    partitions = await options.selection.partitions(client)
    return await _ends(client, dict.fromkeys(partitions, LATEST_TIMESTAMP), options.read.fetch.isolation)


async def first_offsets(client: Client, partitions: set[TopicPartition]) -> dict[TopicPartition, int]:
    return await _ends(client, dict.fromkeys(partitions, EARLIEST_TIMESTAMP), 0)


async def _ends(client: Client, wanted: Mapping[TopicPartition, int], isolation: int) -> dict[TopicPartition, int]:
    found = await list_offsets(client, wanted, isolation=isolation) if wanted else {}
    return {each: answer.offset for each, answer in found.items()}


async def plan_micro_batch(
    client: Client, options: SourceOptions, start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
) -> list[OffsetRange]:
    """The ranges that one micro-batch reads. New partitions are read from their first offset."""
    first = await first_offsets(client, end.keys() - start.keys())
    report(lost_between(start, end, first), fail=options.read.fail_on_data_loss)
    begin = {**start, **first}
    return split_ranges(
        [OffsetRange(each, begin[each], end[each]) for each in sorted(end)],
        options.min_partitions,
        options.max_records_per_partition,
    )
