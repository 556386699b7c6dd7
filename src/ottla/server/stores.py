"""Creates the store of a broker: ZooKeeper, a file that brokers on the same machine share, or a file of its own."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.store.sqlite import SqliteStore
from ottla.store.zookeeper import ZooKeeperStore

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig
    from ottla.server.broker import World
    from ottla.store.interface import Store

logger = logging.getLogger("ottla.broker")

STORE_FILE = "store.sqlite"

_LOG_WAIT_AFTER_SECONDS = 1.0


def session_timeout(config: BrokerConfig) -> float:
    return config.integer("zookeeper.session.timeout.ms") / 1000


def is_shared(config: BrokerConfig) -> bool:
    """Whether other brokers use the store too."""
    return bool(config.get("zookeeper.connect")) or config.get("store.file") is not None


def describe(config: BrokerConfig) -> str:
    address = config.get("zookeeper.connect")
    return f"ZooKeeper at {address}" if address else f"the store {_file(config)}"


def new_store(config: BrokerConfig, world: World) -> Store:
    address = config.get("zookeeper.connect")
    if not address:
        return SqliteStore(
            _file(config), world.clock, world.store_work, world.disk, session_timeout=session_timeout(config)
        )
    credentials = config.get("zookeeper.auth.digest")
    return ZooKeeperStore(
        str(address),
        world.clock,
        world.store_work,
        session_timeout=session_timeout(config),
        patience=_connection_timeout(config),
        credentials=None if credentials is None else str(credentials),
        protect=config.boolean("zookeeper.set.acl"),
    )


async def start_store(store: Store, config: BrokerConfig) -> None:
    """Start the store. If ZooKeeper does not answer within a second, log that the broker waits. Raises StoreError."""
    starting = asyncio.ensure_future(store.start())
    try:
        done, _ = await asyncio.wait([starting], timeout=_LOG_WAIT_AFTER_SECONDS)
        if not done:
            logger.info("waiting for %s, %g s at most", describe(config), _connection_timeout(config))
        await starting
    finally:
        starting.cancel()


def _connection_timeout(config: BrokerConfig) -> float:
    return config.integer("zookeeper.connection.timeout.ms") / 1000


def _file(config: BrokerConfig) -> str:
    shared = config.get("store.file")
    return f"{config.list('log.dirs')[0]}/{STORE_FILE}" if shared is None else str(shared)
