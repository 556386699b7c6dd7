"""The end of a controlled shutdown: a broker that leads nothing any more waits until all others have heard of it."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.client.failures import ClientError
from ottla.wire.api.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

if TYPE_CHECKING:
    from collections.abc import Collection

    from ottla.controller.controller import Controller
    from ottla.controller.peers import Peers

log = logging.getLogger("ottla.controller")

_PATIENCE_SECONDS = 3.0
_PAUSE_SECONDS = 0.02


async def until_known(controller: Controller, peers: Peers, topics: Collection[str]) -> None:
    """Wait until every other broker names the leaders of these topics as this one does; not for long."""
    others = [broker_id for broker_id in controller.image.brokers if broker_id != controller.broker_id]
    if not topics or not others:
        return
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await asyncio.gather(*(_until_known_to(broker_id, controller, peers, topics) for broker_id in others))
    except TimeoutError:
        log.info("not all brokers have heard yet who leads instead of this one")


async def _until_known_to(broker_id: int, controller: Controller, peers: Peers, topics: Collection[str]) -> None:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=topic) for topic in topics], allow_auto_topic_creation=False
    )
    try:
        while True:
            if _agrees(controller, await peers.call(broker_id, request, MetadataResponse)):
                return
            await asyncio.sleep(_PAUSE_SECONDS)
    except ClientError as error:
        log.info("broker %d cannot be asked whether it knows who leads: %s", broker_id, error)


def _agrees(controller: Controller, answer: MetadataResponse) -> bool:
    """Whether the other broker knows no older leader than this one does."""
    for topic in answer.topics:
        for partition in topic.partitions:
            state = controller.image.partition(topic.name or "", partition.partition_index)
            if state is not None and partition.leader_epoch < state.leader_epoch:
                return False
    return True
