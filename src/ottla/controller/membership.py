"""How a broker becomes a member: the cluster gets its id, the broker its entry, one broker the controller's seat."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.cluster import znodes
from ottla.cluster.image import NO_CONTROLLER
from ottla.cluster.registration import create_cluster_id, elect_controller, register_broker
from ottla.store.interface import Create, StoreConflictError

if TYPE_CHECKING:
    from ottla.controller.controller import Controller
    from ottla.env.clock import Clock
    from ottla.store.interface import Store

log = logging.getLogger("ottla.controller")


class BrokerIdTakenError(Exception):
    """Another living broker of this cluster has the same id."""


async def ensure_cluster_id(store: Store, random_bytes: Callable[[int], bytes], known: str | None) -> tuple[str, bool]:
    """The cluster's id, and whether it was stored just now, which means that the store is new.

    A new store takes over the id that is `known` from a data directory.
    """
    node = await store.get(znodes.CLUSTER_ID)
    if node is None:
        ops, cluster_id = create_cluster_id(random_bytes)
        if known is not None:
            ops, cluster_id = [Create(znodes.CLUSTER_ID, znodes.encode_cluster_id(known))], known
        try:
            await store.commit(ops)
            return cluster_id, True
        except StoreConflictError:
            node = await store.get(znodes.CLUSTER_ID)
            assert node is not None
    return znodes.decode_cluster_id(node.data), False


async def register(store: Store, broker_id: int, broker: znodes.BrokerZnode, patience: float = 0.0) -> None:
    """Join. After a crash the broker's former session may outlive it a little, so the id is waited for."""
    loop = asyncio.get_running_loop()
    give_up = loop.time() + patience
    while True:
        try:
            await store.commit(register_broker(broker_id, broker))
        except StoreConflictError:
            if loop.time() >= give_up:
                raise BrokerIdTakenError(
                    f"A broker with id {broker_id} is already running in this cluster; set another node.id."
                ) from None
            log.info("waiting for the former session of broker %d to end", broker_id)
            await asyncio.sleep(min(1.0, patience))
        else:
            return


async def seek_controller_seat(controller: Controller, store: Store, broker_id: int, clock: Clock) -> None:
    """Become the controller if the seat is free."""
    while True:
        ops, epoch = elect_controller(controller.image, broker_id, clock.time_ms())
        try:
            await store.commit(ops)
        except StoreConflictError:
            await controller.refresh()
            if controller.image.controller_id == NO_CONTROLLER:
                continue  # Nobody has the seat; it was the image that was old.
            log.info("broker %d is the controller", controller.image.controller_id)
        else:
            await controller.refresh()
            log.info("this broker is the controller, epoch %d", epoch)
        return
