"""Ends the ZooKeeper session that this broker left behind when it was killed.

ZooKeeper keeps such a session and its registration until the session times out. So a broker stores the credentials of
its session in its log directory, and the next process on that directory ends the session. Decision 14 explains why it
never ends the session of a living broker. Brokers on SQLite do not need this: a session holds a file lock there, and
the kernel releases the lock when the process dies.

The files do not use `World.disk`, because a simulated cluster has no ZooKeeper.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from typing import TYPE_CHECKING

from ottla.cluster.znodes import broker_path
from ottla.log.layout import LOCK
from ottla.store.interface import StoreError
from ottla.store.zookeeper import ZooKeeperStore

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig
    from ottla.server.broker import World
    from ottla.store.interface import Store
    from ottla.store.zookeeper import Credentials

logger = logging.getLogger("ottla.broker")

SESSION_FILE = ".ottla_session"


class FormerSession:
    """The credentials of a broker's session, in its first log directory."""

    def __init__(self, config: BrokerConfig, world: World, store: Store) -> None:
        self._broker_id = config.integer("node.id")
        self._directory = config.list("log.dirs")[0]
        self._address = str(config.get("zookeeper.connect"))
        self._world = world
        self._store = store if isinstance(store, ZooKeeperStore) else None

    def record(self) -> None:
        """Store the credentials of the new session. The broker must hold the lock of its log directories."""
        credentials = None if self._store is None else self._store.credentials
        if credentials is None:
            return
        session, password = credentials
        content = {**self._circumstances(), "session": session, "password": password.hex()}
        try:
            self._write(json.dumps(content).encode())
        except OSError as error:
            logger.warning("cannot store the session's credentials; a restart after a crash takes longer: %s", error)

    async def end(self) -> None:
        """End the session under which this broker is still registered, if a dead process on this directory left it.

        Raises StoreError if the registration cannot be read.
        """
        if self._store is None:
            return
        node = await self._store.get(broker_path(self._broker_id))
        if node is None:
            return
        with contextlib.ExitStack() as lock:
            try:
                lock.enter_context(self._world.disk.lock(f"{self._directory}/{LOCK}"))
            except BlockingIOError:
                return  # Another process uses the directory. It may be the registered broker.
            credentials = self._read()
            if credentials is not None and credentials[0] == node.owner:
                logger.info("ending session 0x%x, which this broker left behind when it was killed", credentials[0])
                try:
                    await self._store.end_session(credentials)
                except StoreError as error:
                    logger.warning("cannot end the session, waiting until it times out: %s", error)

    def _circumstances(self) -> dict[str, object]:
        """The next process may end the session only if these are the same: the boot of the machine, the lock file,
        which a living broker holds locked, and the ensemble. A copy of the directory has another lock file."""
        lock = os.stat(f"{self._directory}/{LOCK}")
        return {"store": self._address, "boot_id": self._world.boot_id, "lock": f"{lock.st_dev}:{lock.st_ino}"}

    def _read(self) -> Credentials | None:
        try:
            with open(f"{self._directory}/{SESSION_FILE}", "rb") as file:
                content = json.load(file)
            credentials = int(content.pop("session")), bytes.fromhex(content.pop("password"))
            circumstances = self._circumstances()
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        return credentials if content == circumstances and circumstances["boot_id"] else None

    def _write(self, data: bytes) -> None:
        """Replace the file. No sync is needed: after a power loss the machine has another boot id."""
        path = f"{self._directory}/{SESSION_FILE}"
        temporary = path + ".tmp"
        with contextlib.suppress(FileNotFoundError):
            os.remove(temporary)
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(data)
        os.replace(temporary, path)
