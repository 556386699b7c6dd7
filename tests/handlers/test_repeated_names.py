"""Requests that name something twice, or name what no topic may be called: refused as Apache Kafka refuses them."""

from pathlib import Path

import pytest

from ottla.errors import ErrorCode
from ottla.model import METADATA_TOPIC, TopicId
from ottla.wire.api.alter_configs import AlterConfigsRequest, AlterConfigsResource, AlterConfigsResponse
from ottla.wire.api.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopic
from ottla.wire.api.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.wire.api.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.wire.api.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from ottla.wire.api.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.server.worlds import Running, asynchronous, running

TOPIC_TYPE = 2


async def create(world: Running, *names: str, **configs: str | None) -> dict[str, int]:
    settings = [CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()]
    topics = [CreatableTopic(name=name, num_partitions=2, replication_factor=1, configs=settings) for name in names]
    reply = await world.call(CreateTopicsRequest(topics=topics), 7, CreateTopicsResponse)
    assert len(reply.topics) == len(set(names))
    return {topic.name: topic.error_code for topic in reply.topics}


async def delete(world: Running, *states: DeleteTopicState, version: int = 6) -> list[tuple[str | None, int]]:
    names = [state.name or "" for state in states]
    request = DeleteTopicsRequest(topics=list(states), topic_names=names, timeout_ms=1000)
    reply = await world.call(request, version, DeleteTopicsResponse)
    return [(result.name, result.error_code) for result in reply.responses]


def id_of(world: Running, topic: str) -> TopicId:
    return world.broker.metadata.image.topics[topic].topic_id


@asynchronous
async def test_a_topic_that_is_created_twice(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        assert await create(world, "twice", "once", "twice") == {
            "twice": ErrorCode.INVALID_REQUEST,
            "once": ErrorCode.NONE,
        }
        assert set(world.broker.metadata.image.topics) == {"once"}


@asynchronous
async def test_the_name_of_the_metadata_log(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        assert await create(world, METADATA_TOPIC) == {METADATA_TOPIC: ErrorCode.INVALID_REQUEST}
        request = MetadataRequest(topics=[MetadataRequestTopic(name=METADATA_TOPIC)])
        reply = await world.call(request, 9, MetadataResponse)
        assert reply.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert not world.broker.metadata.image.topics


@asynchronous
async def test_a_null_among_the_settings_of_a_new_topic(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        assert await create(world, "clicks", retention_ms=None) == {"clicks": ErrorCode.INVALID_CONFIG}


@pytest.mark.parametrize("version", range(1, 7))
@asynchronous
async def test_a_topic_that_is_deleted_twice(version: int, tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await create(world, "twice", "once")
        twice, once = DeleteTopicState(name="twice"), DeleteTopicState(name="once")
        assert await delete(world, twice, once, twice, version=version) == [
            ("twice", ErrorCode.INVALID_REQUEST),
            ("once", ErrorCode.NONE),
        ]
        assert set(world.broker.metadata.image.topics) == {"twice"}


@asynchronous
async def test_a_topic_that_is_deleted_by_its_name_and_its_id(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await create(world, "clicks")
        by_name, by_id = DeleteTopicState(name="clicks"), DeleteTopicState(topic_id=id_of(world, "clicks"))
        both = DeleteTopicState(name="clicks", topic_id=id_of(world, "clicks"))
        for states in ((by_name, by_id), (both,)):
            assert await delete(world, *states) == [("clicks", ErrorCode.INVALID_REQUEST)]
        for states in ((by_id, by_id), (DeleteTopicState(),)):
            assert await delete(world, *states) == [(None, ErrorCode.INVALID_REQUEST)]
        assert await delete(world, by_id) == [("clicks", ErrorCode.NONE)]


@pytest.mark.parametrize(("version", "code"), [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)])
@asynchronous
async def test_deletion_that_is_switched_off(version: int, code: ErrorCode, tmp_path: Path) -> None:
    async with running(tmp_path, {"delete.topic.enable": "false"}) as world:
        await create(world, "clicks")
        assert await delete(world, DeleteTopicState(name="clicks"), version=version) == [("clicks", code)]


@asynchronous
async def test_a_topic_that_grows_twice(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await create(world, "twice", "once")
        topics = [CreatePartitionsTopic(name=it, count=3, assignments=None) for it in ("twice", "once", "twice")]
        reply = await world.call(CreatePartitionsRequest(topics=topics), 3, CreatePartitionsResponse)
        assert [(result.name, result.error_code) for result in reply.results] == [
            ("twice", ErrorCode.INVALID_REQUEST),
            ("once", ErrorCode.NONE),
        ]


@asynchronous
async def test_each_entry_of_an_election_is_answered(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await create(world, "clicks")
        wanted = [TopicPartitions(topic="clicks", partitions=[0]), TopicPartitions(topic="clicks", partitions=[1])]
        reply = await world.call(ElectLeadersRequest(topic_partitions=wanted), 2, ElectLeadersResponse)
        results = reply.replica_election_results
        assert [[it.partition_id for it in result.partition_result] for result in results] == [[0], [1]]


@asynchronous
async def test_a_resource_that_is_altered_twice(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await create(world, "twice", "once")
        resources = [
            AlterConfigsResource(resource_type=TOPIC_TYPE, resource_name=name) for name in ("twice", "once", "twice")
        ]
        reply = await world.call(AlterConfigsRequest(resources=resources), 2, AlterConfigsResponse)
        assert [it.error_code for it in reply.responses] == [
            ErrorCode.INVALID_REQUEST,
            ErrorCode.NONE,
            ErrorCode.INVALID_REQUEST,
        ]


@asynchronous
async def test_settings_of_a_name_that_no_topic_can_have(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        names = ("", "a b", "unknown")
        described = [DescribeConfigsResource(resource_type=TOPIC_TYPE, resource_name=name) for name in names]
        reply = await world.call(DescribeConfigsRequest(resources=described), 4, DescribeConfigsResponse)
        assert [result.error_code for result in reply.results] == [
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        altered = [AlterConfigsResource(resource_type=TOPIC_TYPE, resource_name=name) for name in names]
        answer = await world.call(AlterConfigsRequest(resources=altered), 2, AlterConfigsResponse)
        assert [result.error_code for result in answer.responses] == [
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]


@asynchronous
async def test_authorized_operations_of_topics_in_error(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        topics = [
            MetadataRequestTopic(name="unknown"),
            MetadataRequestTopic(name=None, topic_id=TopicId(b"no such topic id")),
        ]
        request = MetadataRequest(
            topics=topics, allow_auto_topic_creation=False, include_topic_authorized_operations=True
        )
        reply = await world.call(request, 12, MetadataResponse)
        assert [topic.topic_authorized_operations for topic in reply.topics] == [3576, -(2**31)]
