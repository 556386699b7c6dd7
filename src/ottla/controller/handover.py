"""The end of a controlled shutdown: a broker that is neither leader nor controller any more waits until all other
brokers know."""

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

_PATIENCE_SECONDS = 3.0
_PAUSE_SECONDS = 0.02
_LINGER_SECONDS = 0.25
"""A client that was told a moment ago that this broker is the controller, or leads, still gets an answer here."""


async def until_known(metadata: ClusterMetadata, peers: Peers, topics: Collection[str]) -> None:
    """Wait until every other broker names the leaders of these topics as this one does, and another controller than
    this broker; not for long."""
    others = [broker_id for broker_id in metadata.image.brokers if broker_id != metadata.broker_id]
    if not others:
        return
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await asyncio.gather(*(_until_known_to(broker_id, metadata, peers, topics) for broker_id in others))
    except TimeoutError:
        logger.info("not all brokers know yet who leads instead of this one")
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
        logger.info("broker %d cannot be asked whether it knows who leads: %s", broker_id, error)


def _agrees(metadata: ClusterMetadata, answer: MetadataResponse) -> bool:
    """Whether the other broker knows no older leader than this one does, and sends nobody here for the controller."""
    if answer.controller_id == metadata.broker_id:
        return False
    for topic in answer.topics:
        for partition in topic.partitions:
            state = metadata.image.partition(topic.name or "", partition.partition_index)
            if state is not None and partition.leader_epoch < state.leader_epoch:
                return False
    return True
