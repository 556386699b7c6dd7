"""A store in ZooKeeper, shared by brokers on several machines.

A session ends when ZooKeeper says so, not when the connection is lost: an ensemble that is down expires no sessions,
and brokers continue to serve. Without a connection, reads and commits wait, and fail after `patience` seconds. Only a
commit that may have been sent waits for its result without a limit.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from ottla.env.background import Background
from ottla.env.clock import Clock
from ottla.store.interface import (
    ROOT,
    Changes,
    Node,
    Op,
    SessionLostError,
    StoreError,
    Watch,
    check_path,
    is_under,
)
from ottla.store.watches import Watches
from ottla.store.zookeeper_plan import SESSIONS, check_ops

if TYPE_CHECKING:
    from ottla.store.zookeeper_client import Reply, ZooKeeperClient
    from ottla.store.zookeeper_commits import Commits
    from ottla.store.zookeeper_mirror import Mirror
    from ottla.store.zookeeper_requests import Requests


Credentials: TypeAlias = tuple[int, bytes]
"""The id and the password of a session."""


class ZooKeeperStore:
    def __init__(
        self,
        address: str,
        clock: Clock,
        background: Background,
        *,
        session_timeout: float = 18.0,
        patience: float | None = None,
        credentials: str | None = None,
        protect: bool = False,
    ) -> None:
        """`address` is Kafka's `zookeeper.connect`: `host:port,host:port/chroot`. `credentials` are `user:password` for
        ZooKeeper's digest scheme; with `protect`, only they may change the nodes that this store creates."""
        self._address = address
        self._clock = clock
        self._background = background
        self._session_timeout = session_timeout
        self._patience = session_timeout if patience is None else patience
        self._credentials = credentials
        self._protect = protect
        self._client: ZooKeeperClient | None = None
        self._requests: Requests
        self._commits: Commits
        self._session: int | None = None
        self._connected_session: int | None = None
        """The session of kazoo, which begins a new session by itself. The store uses a new one only after `start`."""
        self._mirrors: dict[tuple[str, ...], Mirror] = {}
        self._temporary_mirrors: set[Mirror] = set()
        self._watched: Counter[str] = Counter()
        self._lost_callbacks: list[Callable[[], None]] = []
        self._watches = Watches(clock)

    @property
    def session_id(self) -> int | None:
        return self._session

    @property
    def credentials(self) -> Credentials | None:
        """The credentials of the present session. A process that has them can end the session."""
        identity = None if self._client is None else self._client.identity
        return identity if identity is not None and identity[0] == self._session else None

    async def end_session(self, credentials: Credentials) -> None:
        """End the session of a dead process, which deletes its ephemeral nodes. Raises StoreError."""
        from ottla.store.zookeeper_client import end_session

        await self._background.run(lambda: end_session(self._address, credentials, self._patience))

    async def start(self) -> None:
        if self._session is not None:
            return
        opened = self._client is None
        self._open()
        try:
            # A reply needs a connection, so there is a session after the reply.
            await self._requests.sync()
            session = self._connected_session
            if session is not None:
                await self._requests.make_chroot()
                await self._commits.begin(session)
            if session is None or session != self._connected_session:
                raise StoreError("The session with ZooKeeper ended while the store started; try again.")
        except BaseException:
            if opened:
                await self.close()
            raise
        self._session = session

    def _open(self) -> None:
        if self._client is not None:
            return
        try:
            # Imported here because only brokers on ZooKeeper need kazoo.
            from ottla.store.zookeeper_client import ZooKeeperClient
            from ottla.store.zookeeper_commits import Commits
            from ottla.store.zookeeper_requests import Requests
        except ImportError as error:
            raise StoreError('ZooKeeper needs the kazoo library; install it with: pip install "kazoo<2.12"') from error
        client = ZooKeeperClient(
            self._address,
            self._clock,
            self,
            session_timeout=self._session_timeout,
            patience=self._patience,
            credentials=self._credentials,
        )
        self._requests = Requests(client, self._protect)
        self._commits = Commits(self._requests, self._known)
        self._client = client
        client.open()

    async def close(self) -> None:
        self._watches.cancel_all()
        client, self._client = self._client, None
        self._session = self._connected_session = None
        self._mirrors.clear()
        self._watched.clear()
        if client is not None:
            self._commits.end(StoreError("The store is not open."))
            await self._background.run(client.close())

    def on_session_lost(self, callback: Callable[[], None]) -> None:
        self._lost_callbacks.append(callback)

    async def get(self, path: str) -> Node | None:
        check_path(path)
        return (await self._ready().read_fresh(path)).node

    async def children(self, path: str) -> list[str]:
        names = await self._ready().list_fresh(check_path(path))
        return sorted(name for name in names if path != ROOT or ROOT + name != SESSIONS)

    async def read_tree(self, *prefixes: str) -> dict[str, Node]:
        """Read with a temporary mirror, so that the read includes changes that happen meanwhile."""
        mirror = self._new_mirror(prefixes)
        self._temporary_mirrors.add(mirror)
        watching = self._watch_prefixes(prefixes)
        try:
            await self._requests.watching(watching)
            await mirror.catch_up()
        finally:
            self._temporary_mirrors.discard(mirror)
            self._unwatch_prefixes(prefixes)
        return mirror.nodes

    async def read_changes(self, since: int, *prefixes: str) -> Changes:
        """Read with a mirror that is kept for later calls. Those read only the changed nodes."""
        requests = self._ready()
        mirror = self._mirrors.get(prefixes)
        if mirror is None:
            mirror = self._mirrors[prefixes] = self._new_mirror(prefixes)
            await requests.watching(self._watch_prefixes(prefixes))
        await mirror.catch_up()
        return mirror.changes(since)

    async def commit(self, ops: Sequence[Op]) -> list[int]:
        self._ready()
        check_ops(ops)
        if self._session is None:
            raise SessionLostError("The session with ZooKeeper has ended.")
        return await self._commits.commit(ops)

    def watch(self, callback: Callable[[], None], *prefixes: str) -> Watch:
        """A prefix that was not watched yet gets one callback when its watch is set: it may have changed before."""
        watch = self._watches.add(callback, prefixes)
        for watching in self._watch_prefixes(prefixes):
            watching.add_done_callback(lambda _: self._watches.notify(prefixes))
        return watch

    def connected(self, session: int) -> None:
        """Set all watches on the new connection, and read all nodes again, since changes may have been missed."""
        self._connected_session = session
        for prefix in self._watched:
            self._requests.watch(prefix, first=True)
        for mirror in (*self._mirrors.values(), *self._temporary_mirrors):
            mirror.mark_all()
        self._watches.notify_all()

    def lost(self) -> None:
        self._connected_session = None
        if self._session is None:
            return
        self._session = None
        self._commits.end(SessionLostError("The session with ZooKeeper has ended."))
        for callback in self._lost_callbacks:
            callback()

    def changed(self, path: str) -> None:
        store_path = self._requests.path_within(path)
        if store_path is None or is_under(store_path, SESSIONS):
            return
        for mirror in (*self._mirrors.values(), *self._temporary_mirrors):
            mirror.mark(store_path)
        self._watches.notify([store_path])

    def _ready(self) -> "Requests":
        if self._client is None:
            raise StoreError("The store is not open.")
        return self._requests

    def _new_mirror(self, prefixes: Sequence[str]) -> "Mirror":
        from ottla.store.zookeeper_mirror import Mirror

        requests = self._ready()
        return Mirror(requests, [check_path(prefix) for prefix in prefixes])

    def _known(self, path: str) -> int | None:
        for mirror in self._mirrors.values():
            with contextlib.suppress(KeyError):
                return mirror.known(path)
        raise KeyError(path)

    def _watch_prefixes(self, prefixes: Iterable[str]) -> "list[asyncio.Future[Reply]]":
        """Watch the prefixes that are not watched yet. ZooKeeper sets the watches before it serves later requests."""
        new = [prefix for prefix in prefixes if not self._watched[prefix]]
        self._watched.update(prefixes)
        return [] if self._client is None else [self._requests.watch(prefix) for prefix in new]

    def _unwatch_prefixes(self, prefixes: Iterable[str]) -> None:
        for prefix in prefixes:
            self._watched[prefix] -= 1
            if self._watched[prefix] <= 0:
                del self._watched[prefix]
                if self._client is not None:
                    self._requests.unwatch(prefix)
