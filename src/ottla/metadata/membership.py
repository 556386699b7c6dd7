"""How a broker joins the cluster. It creates the cluster id if there is none, registers, and becomes the controller if
there is none. The registration lasts as long as the session with the store. An unregistered broker leads nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.cluster import znodes
from ottla.cluster.image import NO_CONTROLLER
from ottla.cluster.registration import create_cluster_id, elect_controller, register_broker
from ottla.store.interface import Create, StoreConflictError, StoreError

if TYPE_CHECKING:
    from ottla.env.clock import Clock
    from ottla.metadata.cluster_metadata import ClusterMetadata
    from ottla.store.interface import Store

logger = logging.getLogger("ottla.metadata")

_POLL_SECONDS = 0.1
_REJOIN_SECONDS = 1.0
_MAX_ATTEMPTS = 10
"""Attempts to become the controller. More conflicts in a row are no race."""


class BrokerIdTakenError(Exception):
    """Another living broker of this cluster has the same id."""

    def __init__(self, broker_id: int) -> None:
        super().__init__(f"A broker with id {broker_id} is already running in this cluster; set another node.id.")


async def ensure_cluster_id(store: Store, random_bytes: Callable[[int], bytes], known: str | None) -> tuple[str, bool]:
    """The cluster id, and whether this call created it, which means that the store is new.

    A new store gets the id that is `known` from a data directory.
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


async def wait_for_id(store: Store, broker_id: int, timeout_seconds: float, clock: Clock) -> None:
    """Wait until no broker with this id is registered. After a crash, the previous session must expire first.

    The broker must not change the cluster before: another broker with this id may be alive and lead partitions.
    """
    deadline = clock.monotonic() + timeout_seconds
    waiting = False
    while await store.get(znodes.broker_path(broker_id)) is not None:
        if clock.monotonic() >= deadline:
            raise BrokerIdTakenError(broker_id)
        if not waiting:
            logger.info(
                "waiting for the previous session of broker %d to expire, %g s at most", broker_id, timeout_seconds
            )
            waiting = True
        await _pause(clock, _POLL_SECONDS)


async def register(store: Store, broker_id: int, broker: znodes.BrokerZnode) -> None:
    """Register. A registration of the same session is accepted: it is from an earlier attempt that failed later."""
    try:
        await store.commit(register_broker(broker_id, broker))
    except StoreConflictError:
        node = await store.get(znodes.broker_path(broker_id))
        if node is None or node.owner != store.session_id:
            raise BrokerIdTakenError(broker_id) from None


async def elect_self_controller(metadata: ClusterMetadata, store: Store, broker_id: int, clock: Clock) -> None:
    """Become the controller if there is none."""
    for _ in range(_MAX_ATTEMPTS):
        ops, epoch = elect_controller(metadata.image, broker_id, clock.time_ms())
        try:
            await store.commit(ops)
        except StoreConflictError:
            await metadata.refresh()
            if metadata.image.controller_id == NO_CONTROLLER:
                continue  # There is still no controller: the image was stale.
            logger.info("broker %d is the controller", metadata.image.controller_id)
        else:
            await metadata.refresh()
            logger.info("this broker is the controller, epoch %d", epoch)
        return
    logger.error("this broker cannot become the controller: the store rejects it, and there is no other controller")


class Membership:
    """Keeps a broker registered. A broker that loses its session is fenced until it has registered in a new session."""

    def __init__(
        self,
        broker_id: int,
        store: Store,
        metadata: ClusterMetadata,
        clock: Clock,
        on_session: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_session` is called in each new session before this broker registers."""
        self._broker_id = broker_id
        self._store = store
        self._metadata = metadata
        self._clock = clock
        self._registration: Callable[[], znodes.BrokerZnode]
        self._on_session = on_session
        self._rejoining: asyncio.Task[None] | None = None
        self._stopped = False

    async def join(self, registration: Callable[[], znodes.BrokerZnode]) -> None:
        """Raises StoreError, BrokerIdTakenError."""
        self._registration = registration
        self._on_session()
        await register(self._store, self._broker_id, registration())
        await self._metadata.refresh()
        if self._metadata.image.controller_id == NO_CONTROLLER:
            await elect_self_controller(self._metadata, self._store, self._broker_id, self._clock)
        self._store.on_session_lost(self._lost)
        if self._store.session_id is None:
            self._lost()

    def stop(self) -> None:
        self._stopped = True
        if self._rejoining is not None:
            self._rejoining.cancel()

    def _lost(self) -> None:
        """Fence this broker immediately: other brokers may already lead its partitions."""
        if self._stopped:
            return
        logger.warning("the session with the store is lost; this broker leads nothing until it has registered again")
        self._metadata.fence()
        if self._rejoining is None or self._rejoining.done():
            self._rejoining = asyncio.ensure_future(self._rejoin())

    async def _rejoin(self) -> None:
        while True:
            try:
                await self._store.start()
                session = self._store.session_id
                self._on_session()
                await register(self._store, self._broker_id, self._registration())
                await self._metadata.refresh()
                if session is not None and session == self._store.session_id:
                    break
            except (StoreError, BrokerIdTakenError) as error:
                logger.error("this broker cannot register; retrying: %s", error)
            await _pause(self._clock, _REJOIN_SECONDS)
        logger.info("this broker has registered again")
        self._metadata.unfence()


async def _pause(clock: Clock, seconds: float) -> None:
    over = asyncio.Event()
    timer = clock.call_later(seconds, over.set)
    try:
        await over.wait()
    finally:
        timer.cancel()
