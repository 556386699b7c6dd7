"""A store in ZooKeeper, shared by brokers on many machines.

A session is over when ZooKeeper says so, not when it has been silent: an ensemble that is gone for a while expires
nobody, and the brokers go on serving what they serve. Meanwhile reads and commits wait, and fail when there has been
no connection for `patience`; only a commit that may have been sent waits for the answer however long it takes.
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
"""Of a session: its id and its password."""


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
        ZooKeeper's digest scheme; with `protect`, only they may change the nodes this store makes."""
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
        """The session of kazoo, which begins a new one by itself. The store uses it only after `start`."""
        self._mirrors: dict[tuple[str, ...], Mirror] = {}
        self._passing: set[Mirror] = set()
        self._watched: Counter[str] = Counter()
        self._lost_callbacks: list[Callable[[], None]] = []
        self._watches = Watches(clock)

    @property
    def session_id(self) -> int | None:
        return self._session

    @property
    def credentials(self) -> Credentials | None:
        """Of the present session. Any process that has them can end it."""
        identity = None if self._client is None else self._client.identity
        return identity if identity is not None and identity[0] == self._session else None

    async def end_session(self, credentials: Credentials) -> None:
        """End a session whose process is dead, so that its ephemeral nodes go at once. Raises StoreError."""
        from ottla.store.zookeeper_client import end_session

        await self._background.run(lambda: end_session(self._address, credentials, self._patience))

    async def start(self) -> None:
        if self._session is not None:
            return
        opened = self._client is None
        self._open()
        try:
            # The answer needs a connection, so there is a session when it has come.
            await self._requests.sync()
            session = self._connected_session
            if session is not None:
                await self._requests.make_chroot()
                await self._commits.begin(session)
            if session is None or session != self._connected_session:
                raise StoreError("The session with ZooKeeper was over before it began; try again.")
        except BaseException:
            if opened:
                await self.close()
            raise
        self._session = session

    def _open(self) -> None:
        if self._client is not None:
            return
        try:
            # Imported here because only a broker that is told to use ZooKeeper needs kazoo.
            from ottla.store.zookeeper_client import ZooKeeperClient
            from ottla.store.zookeeper_commits import Commits
            from ottla.store.zookeeper_requests import Requests
        except ImportError as error:
            raise StoreError(
                "ZooKeeper needs the kazoo library; install it with: pip install 'ottla[zookeeper]'"
            ) from error
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
        """Read from a copy that lasts as long as the call, so that changes during the read are noticed."""
        mirror = self._new_mirror(prefixes)
        self._passing.add(mirror)
        watching = self._watch_prefixes(prefixes)
        try:
            await self._requests.watching(watching)
            await mirror.catch_up()
        finally:
            self._passing.discard(mirror)
            self._unwatch_prefixes(prefixes)
        return mirror.nodes

    async def read_changes(self, since: int, *prefixes: str) -> Changes:
        """Read from a copy that is kept from the first call on. Later calls read only the changed nodes."""
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
            raise SessionLostError("The session with ZooKeeper is over.")
        return await self._commits.commit(ops)

    def watch(self, callback: Callable[[], None], *prefixes: str) -> Watch:
        """A prefix that was not watched before gets one callback when it is watched: it may have changed until then."""
        watch = self._watches.add(callback, prefixes)
        for watching in self._watch_prefixes(prefixes):
            watching.add_done_callback(lambda _: self._watches.notify(prefixes))
        return watch

    def connected(self, session: int) -> None:
        """The server has no watches of ours yet, and changes without a connection were not reported: read all again."""
        self._connected_session = session
        for prefix in self._watched:
            self._requests.watch(prefix, first=True)
        for mirror in (*self._mirrors.values(), *self._passing):
            mirror.mark_all()
        self._watches.notify_all()

    def lost(self) -> None:
        self._connected_session = None
        if self._session is None:
            return
        self._session = None
        self._commits.end(SessionLostError("The session with ZooKeeper is over."))
        for callback in self._lost_callbacks:
            callback()

    def changed(self, path: str) -> None:
        within = self._requests.path_within(path)
        if within is None or is_under(within, SESSIONS):
            return
        for mirror in (*self._mirrors.values(), *self._passing):
            mirror.mark(within)
        self._watches.notify([within])

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
        """Watch the prefixes that are not watched yet. ZooKeeper sets the watches before it answers later requests."""
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
