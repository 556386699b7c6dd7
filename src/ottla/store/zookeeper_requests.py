"""The requests to ZooKeeper, with the types of the store: paths without the chroot, nodes, steps and refusals."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    ConnectionLoss,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
    SessionMovedError,
    UnimplementedError,
    ZookeeperError,
)
from kazoo.protocol.serialization import (
    CheckVersion,
    Create,
    Delete,
    Exists,
    GetChildren2,
    GetData,
    SetData,
    Sync,
    Transaction,
    int_struct,
    write_string,
)
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from ottla.store.interface import ROOT, CommitTooLargeError, Node, Refusal, SessionLostError, StoreError
from ottla.store.zookeeper_client import Reply, ZooKeeperClient
from ottla.store.zookeeper_plan import Act, Step

MAX_REQUEST_BYTES = 1_048_575 - 64
"""ZooKeeper's `jute.maxbuffer`, less the overhead of a request. A server closes the connection on a larger request."""

_EPHEMERAL = 1
_PERSISTENT_RECURSIVE = 1
_ANY_WATCH = 3

_REFUSALS: dict[type[ZookeeperError], Refusal] = {
    NodeExistsError: Refusal.EXISTS,
    NoNodeError: Refusal.MISSING,
    BadVersionError: Refusal.VERSION,
    NotEmptyError: Refusal.NOT_EMPTY,
    NoChildrenForEphemeralsError: Refusal.EPHEMERAL_PARENT,
}


class ReplyLostError(Exception):
    """The connection broke before the reply came. The server may have done the request or not."""


class Seen(NamedTuple):
    """The result of a read. `node` is None if there is no such node."""

    node: Node | None
    children: int
    latest: int
    """The last transaction that changed the node's data or its list of children."""
    zxid: int
    """The last transaction that the server had applied when it read the node."""


class Failure(NamedTuple):
    step: int
    refusal: Refusal


class _AddWatch(NamedTuple):
    """The AddWatch request, which kazoo does not have."""

    path: str
    mode: int

    def serialize(self) -> bytes:
        packed: bytes = write_string(self.path) + int_struct.pack(self.mode)
        return packed

    def deserialize(self, _message: bytes, _offset: int) -> bool:
        return True

    @property
    def type(self) -> int:
        return 106


class _RemoveWatches(_AddWatch):
    @property
    def type(self) -> int:
        return 18


class Requests:
    def __init__(self, client: ZooKeeperClient, protect: bool) -> None:
        self._client = client
        self._chroot = client.chroot
        self._acl = CREATOR_ALL_ACL + READ_ACL_UNSAFE if protect else OPEN_ACL_UNSAFE

    def path_within(self, path: str) -> str | None:
        """Translate a path of the server into a path of the store. None if it is outside of the chroot."""
        if not self._chroot:
            return path
        if path == self._chroot:
            return ROOT
        return path[len(self._chroot) :] if path.startswith(self._chroot + "/") else None

    async def sync(self) -> int:
        """Let the server catch up with the ensemble. Events of all changes up to the returned zxid have arrived."""
        return (await _answer(self._sync(ROOT))).zxid

    async def read(self, path: str) -> Seen:
        return (await self.read_all([path]))[0]

    async def read_fresh(self, path: str) -> Seen:
        """Like `read`, but includes all earlier commits of other clients: the server syncs before it reads."""
        self._sync(path)
        return await self.read(path)

    async def read_all(self, paths: Iterable[str]) -> list[Seen]:
        replies = [self._read(GetData(self._full(path), None)) for path in paths]
        return [_seen(await _answer(reply)) for reply in replies]

    async def list_all(self, paths: Iterable[str]) -> list[list[str]]:
        replies = [self._read(GetChildren2(self._full(path), None)) for path in paths]
        values = [(await _answer(reply)).value for reply in replies]
        return [[] if value is None else value[0] for value in values]

    async def list_fresh(self, path: str) -> list[str]:
        self._sync(path)
        return (await self.list_all([path]))[0]

    async def versions(self, paths: Iterable[str]) -> dict[str, int | None]:
        replies = [(path, self._read(Exists(self._full(path), None))) for path in paths]
        values = [(path, (await _answer(reply)).value) for path, reply in replies]
        return {path: None if stat is None else stat.version for path, stat in values}

    def watch(self, path: str, *, first: bool = False) -> "asyncio.Future[Reply]":
        """Watch every change at the path and below, until this connection ends."""
        request = _AddWatch(self._full(path), _PERSISTENT_RECURSIVE)
        return self._client.submit(request, first=first)

    async def watching(self, watches: "Iterable[asyncio.Future[Reply]]") -> None:
        for watch in watches:
            try:
                await _answer(watch)
            except (ReplyLostError, SessionLostError):
                continue  # The next connection sets all watches again.
            except UnimplementedError as error:
                raise StoreError("This ZooKeeper is too old; Ottla needs version 3.6 or newer.") from error

    def unwatch(self, path: str) -> None:
        self._client.submit(_RemoveWatches(self._full(path), _ANY_WATCH))

    async def make_chroot(self) -> None:
        """Create the missing nodes of the chroot. Existing nodes keep their ACLs."""
        path = ""
        for name in self._chroot.split("/")[1:]:
            path += "/" + name
            if (await _answer(self._read(Exists(path, None)))).value is None:
                await self._make(Create(path, b"", self._acl, 0))

    async def make(self, path: str, *, ephemeral: bool = False) -> None:
        """Create the node if it is missing. Retries if the reply is lost."""
        await self._make(Create(self._full(path), b"", self._acl, _EPHEMERAL if ephemeral else 0))

    async def _make(self, create: Any) -> None:
        while True:
            try:
                await _answer(self._client.submit(create))
                return
            except NodeExistsError:
                return
            except ReplyLostError:
                continue

    def transaction(self, guard: str, guard_version: int, steps: Sequence[Step]) -> Any:
        """The compare-and-set of the guard (see `zookeeper_commits`), followed by all steps."""
        count = SetData(self._full(guard), b"", guard_version)
        request = Transaction([count, *map(self._operation, steps)])
        if (size := len(request.serialize())) > MAX_REQUEST_BYTES:
            raise CommitTooLargeError(
                f"A commit of {size} bytes is too large for ZooKeeper, which accepts one megabyte."
            )
        return request

    async def transact(self, transaction: Any, *, patient: bool) -> Failure | None:
        """Send a transaction. A failure has the index of the first rejected step; the guard is step 0."""
        results = (await _answer(self._client.submit(transaction, patient=patient))).value
        for index, result in enumerate(results):
            if isinstance(result, RolledBackError | RuntimeInconsistency) or not isinstance(result, ZookeeperError):
                continue
            if type(result) not in _REFUSALS:
                raise _as_store_error(result)
            return Failure(index, _REFUSALS[type(result)])
        return None

    def _operation(self, step: Step) -> Any:
        path = self._full(step.path)
        if step.act is Act.CREATE:
            return Create(path, step.data, self._acl, _EPHEMERAL if step.ephemeral else 0)
        if step.act is Act.SET:
            return SetData(path, step.data, step.version)
        if step.act is Act.DELETE:
            return Delete(path, step.version)
        return CheckVersion(path, step.version)

    def _full(self, path: str) -> str:
        return (self._chroot + path if path != ROOT else self._chroot) or ROOT

    def _read(self, request: Any) -> "asyncio.Future[Reply]":
        return self._client.submit(request, is_read=True)

    def _sync(self, path: str) -> "asyncio.Future[Reply]":
        return self._read(Sync(self._full(path)))


def _seen(reply: Reply) -> Seen:
    if reply.value is None:
        return Seen(None, 0, 0, reply.zxid)
    data, stat = reply.value
    node = Node(data or b"", stat.version, stat.ephemeralOwner or None, stat.czxid)
    return Seen(node, stat.numChildren, max(stat.mzxid, stat.pzxid), reply.zxid)


async def _answer(reply: "asyncio.Future[Reply]") -> Reply:
    try:
        return await reply
    except (ConnectionLoss, SessionMovedError) as error:
        raise ReplyLostError from error
    except SessionExpiredError as error:
        raise SessionLostError("The session with ZooKeeper has ended.") from error
    except (NodeExistsError, UnimplementedError):
        raise
    except ZookeeperError as error:
        raise _as_store_error(error) from error


def _as_store_error(error: ZookeeperError) -> StoreError:
    if isinstance(error, NoAuthError | AuthFailedError):
        return StoreError("ZooKeeper does not allow these credentials to do this.")
    return StoreError(f"ZooKeeper failed: {type(error).__name__}.")
