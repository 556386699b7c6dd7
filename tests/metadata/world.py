"""Brokers' controllers on one tree in memory, with stores that can be slow or fail."""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence

from ottla.config.broker import BrokerConfig
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.membership import elect_self_controller, ensure_cluster_id, register
from ottla.store.interface import Changes, Node, Op, StoreError
from ottla.store.memory import MemoryStore, MemoryTree
from tests.manual_clock import ManualClock
from tests.replication.cluster import broker_znode
from tests.replication.world import settle


class TroubledStore(MemoryStore):
    """A store whose answers the test can hold back, and that can refuse to work."""

    def __init__(self, tree: MemoryTree, clock: ManualClock) -> None:
        super().__init__(tree, clock)
        self.broken: set[str] = set()
        """Operations that fail: `commit`, `get`, `read_changes`, `read_tree`."""
        self.before_commit: Callable[[], object] | None = None
        """Called once, after a decision and before it is written: what another broker does meanwhile."""
        self.answers = asyncio.Event()
        """While it is clear, what `read_changes` has read does not arrive."""
        self.answers.set()

    def _check(self, operation: str) -> None:
        if operation in self.broken:
            raise StoreError(f"The store cannot {operation}.")

    async def get(self, path: str) -> Node | None:
        self._check("get")
        await asyncio.sleep(0)
        return await super().get(path)

    async def read_tree(self, *prefixes: str) -> dict[str, Node]:
        self._check("read_tree")
        return await super().read_tree(*prefixes)

    async def commit(self, ops: Sequence[Op]) -> list[int]:
        self._check("commit")
        before_commit, self.before_commit = self.before_commit, None
        if before_commit is not None:
            before_commit()
        await asyncio.sleep(0)
        return await super().commit(ops)

    async def read_changes(self, since: int, *prefixes: str) -> Changes:
        self._check("read_changes")
        changes = await super().read_changes(since, *prefixes)
        await self.answers.wait()
        return changes


class Member:
    """One broker, as far as controllers are concerned."""

    def __init__(self, cluster: "ControllerWorld", broker_id: int, settings: Mapping[str, str]) -> None:
        self.id = broker_id
        self.store = TroubledStore(cluster.tree, cluster.clock)
        self.random = random.Random(broker_id)
        config = BrokerConfig({"node.id": str(broker_id), **settings})
        self.metadata = ClusterMetadata(broker_id, self.store, config, self.random.randbytes)
        self._clock = cluster.clock

    async def join(self) -> None:
        await self.store.start()
        await ensure_cluster_id(self.store, self.random.randbytes, None)
        await self.metadata.start()
        await elect_self_controller(self.metadata, self.store, self.id, self._clock)
        await register(self.store, self.id, broker_znode(self.id))
        await self.metadata.refresh()

    async def leave(self) -> None:
        self.metadata.stop()
        await self.store.close()


class ControllerWorld:
    def __init__(self) -> None:
        self.tree = MemoryTree()
        self.clock = ManualClock()

    async def join(self, broker_id: int = 1, settings: Mapping[str, str] | None = None) -> Member:
        member = Member(self, broker_id, settings or {})
        await member.join()
        await self.notice()
        return member

    async def notice(self) -> None:
        """Let everybody see what the others did."""
        self.clock.advance(0)
        await settle()
