"""The broker's own topics: clients read them, but do not write to them or cut them off."""

from pathlib import Path

import pytest

from ottla.errors import ErrorCode
from ottla.model import GROUP_OFFSETS_TOPIC
from ottla.records.builder import NewRecord, build_batch
from ottla.wire import codec
from ottla.wire.api.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.wire.api.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.server.wire_client import PRODUCE_VERSION, encode_request, produce_request
from tests.server.worlds import Running, asynchronous, running, until

FORGED = bytes(build_batch([NewRecord(b"\0\2\0\1g", b"not what the coordinator wrote")]))


async def produce(world: Running, client_id: str | None) -> ErrorCode:
    connection = world.connect()
    connection.push(encode_request(produce_request(GROUP_OFFSETS_TOPIC, FORGED), PRODUCE_VERSION, 0, client_id))
    await until(lambda: bool(connection.taken))
    reply, _ = codec.decode(ProduceResponse, connection.frames()[0], PRODUCE_VERSION, 4)
    return ErrorCode(reply.responses[0].partition_responses[0].error_code)


@asynchronous
async def test_producing_is_for_the_admin_client_alone(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await world.broker.metadata.create_offsets_topic()
        offsets = world.broker.replicas.leader_of(GROUP_OFFSETS_TOPIC, 0)
        for client_id in (None, "", "test"):
            assert await produce(world, client_id) is ErrorCode.INVALID_TOPIC_EXCEPTION
        assert offsets.log.end_offset == 0
        assert await produce(world, "__admin_client") is ErrorCode.NONE
        assert offsets.log.end_offset == 1


@asynchronous
async def test_producing_by_id_is_no_way_around(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await world.broker.metadata.create_offsets_topic()
        topic_id = world.broker.metadata.image.topics[GROUP_OFFSETS_TOPIC].topic_id
        data = TopicProduceData(topic_id=topic_id, partition_data=[PartitionProduceData(index=0, records=FORGED)])
        reply = await world.call(ProduceRequest(acks=1, topic_data=[data]), 13, ProduceResponse)
        assert reply.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


async def delete_records(world: Running, topic: str) -> ErrorCode:
    wanted = DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=-1)])
    reply = await world.call(DeleteRecordsRequest(topics=[wanted]), 1, DeleteRecordsResponse)
    return ErrorCode(reply.topics[0].partitions[0].error_code)


@asynchronous
async def test_records_of_internal_topics_stay(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await world.broker.metadata.create_offsets_topic()
        assert await delete_records(world, GROUP_OFFSETS_TOPIC) is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(
    "policy, code",
    [
        ("delete", ErrorCode.NONE),
        ("compact,delete", ErrorCode.NONE),
        ("compact", ErrorCode.POLICY_VIOLATION),
    ],
)
@asynchronous
async def test_records_of_compacted_topics_stay(policy: str, code: ErrorCode, tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await world.broker.metadata.create_topic("clicks", partitions=1, overrides={"cleanup.policy": policy})
        assert await delete_records(world, "clicks") is code
