"""ListConfigResources: everything that can have settings, by type."""

from pathlib import Path

from ottla.cluster.image import Entity, EntityType
from ottla.errors import ErrorCode
from ottla.wire.api.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from tests.server.worlds import Running, asynchronous, running

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


async def resources(world: Running, *types: int) -> set[tuple[int, str]]:
    request = ListConfigResourcesRequest(resource_types=list(types))
    reply = await world.call(request, 1, ListConfigResourcesResponse)
    assert reply.error_code == ErrorCode.NONE
    listed = [(resource.resource_type, resource.resource_name) for resource in reply.config_resources]
    assert len(set(listed)) == len(listed)
    return set(listed)


@asynchronous
async def test_by_type(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await world.broker.metadata.create_topic("clicks", partitions=1)
        group = Entity(EntityType.GROUP, "g")
        await world.broker.metadata.set_overrides(group, lambda _: {"consumer.session.timeout.ms": "50000"})
        this = str(world.broker.id)
        assert await resources(world, TOPIC) == {(TOPIC, "clicks")}
        assert await resources(world, BROKER, BROKER) == {(BROKER, this)}
        assert await resources(world, BROKER_LOGGER) == {(BROKER_LOGGER, this)}
        assert await resources(world, GROUP) == {(GROUP, "g")}
        assert await resources(world, CLIENT_METRICS) == set()
        everything = {(TOPIC, "clicks"), (BROKER, this), (BROKER_LOGGER, this), (GROUP, "g")}
        assert await resources(world) == everything


@asynchronous
async def test_version_0_lists_client_metrics_only(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await world.broker.metadata.create_topic("clicks", partitions=1)
        reply = await world.call(ListConfigResourcesRequest(), 0, ListConfigResourcesResponse)
        assert (reply.error_code, reply.config_resources) == (ErrorCode.NONE, [])


@asynchronous
async def test_types_that_do_not_exist(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        for types in ([0], [99], [TOPIC, 99]):
            request = ListConfigResourcesRequest(resource_types=types)
            reply = await world.call(request, 1, ListConfigResourcesResponse)
            assert (reply.error_code, reply.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, [])
