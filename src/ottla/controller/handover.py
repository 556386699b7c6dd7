"""The end of a controlled shutdown: the broker waits until all other brokers know the new leaders and controller."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.client.failures import ClientError
from ottla.wire.api.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

if TYPE_CHECKING:
    from collections.abc import Collection

    from ottla.metadata.cluster_metadata import ClusterMetadata
    from ottla.metadata.peers import Peers

logger = logging.getLogger("ottla.controller")

_TIMEOUT_SECONDS = 3.0
_PAUSE_SECONDS = 0.02
_LINGER_SECONDS = 0.25
"""The broker keeps serving for this long: clients may have old metadata that names it as leader or controller."""


async def until_known(metadata: ClusterMetadata, peers: Peers, topics: Collection[str]) -> None:
    """Wait until every other broker reports the new leaders of these topics, and a controller that is not this broker.
    Returns after a timeout in any case."""
    others = [broker_id for broker_id in metadata.image.brokers if broker_id != metadata.broker_id]
    if not others:
        return
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            await asyncio.gather(*(_until_known_to(broker_id, metadata, peers, topics) for broker_id in others))
    except TimeoutError:
        logger.info("timed out waiting for all brokers to learn the new leaders")
    await asyncio.sleep(_LINGER_SECONDS)


async def _until_known_to(broker_id: int, metadata: ClusterMetadata, peers: Peers, topics: Collection[str]) -> None:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=topic) for topic in topics], allow_auto_topic_creation=False
    )
    try:
        while True:
            if _agrees(metadata, await peers.call(broker_id, request, MetadataResponse)):
                return
            await asyncio.sleep(_PAUSE_SECONDS)
    except ClientError as error:
        logger.info("cannot ask broker %d for its metadata: %s", broker_id, error)


def _agrees(metadata: ClusterMetadata, response: MetadataResponse) -> bool:
    """Whether the other broker has no older leader epoch than this broker, and another controller."""
    if response.controller_id == metadata.broker_id:
        return False
    for topic in response.topics:
        for partition in topic.partitions:
            state = metadata.image.partition(topic.name or "", partition.partition_index)
            if state is not None and partition.leader_epoch < state.leader_epoch:
                return False
    return True
