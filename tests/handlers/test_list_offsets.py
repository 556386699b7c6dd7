"""ListOffsets: negative timestamps are questions, and not every version may ask each of them."""

from pathlib import Path

from ottla.errors import ErrorCode
from ottla.wire.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tests.server.worlds import asynchronous, running

FIRST_VERSION = {-1: 1, -2: 1, -3: 7, -4: 8, -5: 9, -6: 11}
"""As Apache Kafka 4.3.1 answers."""


@asynchronous
async def test_which_questions_a_version_may_ask(tmp_path: Path) -> None:
    timestamps = [*FIRST_VERSION, -7, -100, -(2**63)]
    partitions = [ListOffsetsPartition(partition_index=0, timestamp=timestamp) for timestamp in timestamps]
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="clicks", partitions=partitions)])
    async with running(tmp_path) as world:
        await world.broker.metadata.create_topic("clicks", partitions=1)
        for version in range(1, 12):
            reply = await world.call(request, version, ListOffsetsResponse)
            assert [ErrorCode(partition.error_code) for partition in reply.topics[0].partitions] == [
                ErrorCode.NONE if version >= FIRST_VERSION.get(timestamp, 99) else ErrorCode.UNSUPPORTED_VERSION
                for timestamp in timestamps
            ]
