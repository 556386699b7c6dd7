"""A store with invalid settings, as another release or tool may leave them."""

import logging
from pathlib import Path

import pytest

from ottla.cluster import znodes
from ottla.cluster.image import Entity, EntityType
from ottla.store.interface import Put
from ottla.wire.api.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.handlers.brokers import Brokers, brokers
from tests.server.worlds import asynchronous, until

TOPIC, BROKER = 2, 4
REMOVE = 1


async def store(cluster: Brokers, kind: EntityType, name: str, settings: dict[str, str]) -> None:
    """Write settings without validation."""
    metadata = cluster.running[cluster.any].broker.metadata
    await metadata._store.commit([Put(znodes.config_path(kind, name), znodes.encode_config(settings))])
    await until(lambda: metadata.image.config(Entity(kind, name)) == settings)


async def remove(cluster: Brokers, resource_type: int, name: str, *keys: str) -> int:
    changes = [AlterableConfig(name=key, config_operation=REMOVE, value=None) for key in keys]
    resource = AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=changes)
    request = IncrementalAlterConfigsRequest(resources=[resource])
    return (await cluster.call(request, IncrementalAlterConfigsResponse)).responses[0].error_code


async def described(cluster: Brokers, topic: str, key: str) -> str | None:
    resource = DescribeConfigsResource(resource_type=TOPIC, resource_name=topic, configuration_keys=[key])
    reply = await cluster.call(DescribeConfigsRequest(resources=[resource]), DescribeConfigsResponse)
    return reply.results[0].configs[0].value


@asynchronous
async def test_a_limit_that_locks_everybody_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with brokers(tmp_path, 1) as cluster:
        await store(
            cluster, EntityType.BROKER, str(cluster.any), {"max.connections": "0", "max.connections.per.ip": "0"}
        )
        broker_id = cluster.any
        await cluster.stop(broker_id)
        caplog.clear()
        await cluster.start(broker_id)
        await cluster.create("clicks", [broker_id])
        warnings = [it.getMessage() for it in caplog.records if it.levelno == logging.WARNING]
        assert any("max.connections:" in warning for warning in warnings)
        assert any("max.connections.per.ip:" in warning for warning in warnings)
        assert await remove(cluster, BROKER, str(broker_id), "max.connections", "max.connections.per.ip") == 0
        assert not cluster.image.broker_config(broker_id)


@asynchronous
async def test_a_topic_with_a_bad_setting_concerns_nobody_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with brokers(tmp_path, 1) as cluster:
        broker_id = cluster.any
        for topic in ("clicks", "orders"):
            await cluster.create(topic, [broker_id])
        await store(cluster, EntityType.TOPIC, "clicks", {"segment.bytes": "1"})
        await cluster.stop(broker_id)
        caplog.clear()
        await cluster.start(broker_id)
        await cluster.produce("orders", 1)
        assert "clicks cannot be served" in caplog.text
        assert await described(cluster, "clicks", "segment.bytes") == str(2**30)
        assert await remove(cluster, TOPIC, "clicks", "segment.bytes") == 0
        await cluster.produce("clicks", 1)
