"""Small clusters for tests: images of real nodes, and operations on a plain tree."""

import asyncio
import random
from collections.abc import Sequence

from ottla.cluster.image import IMAGE_PREFIXES, ClusterImage
from ottla.cluster.registration import create_cluster_id, elect_controller, register_broker
from ottla.cluster.znodes import BrokerZnode, Endpoint
from ottla.env.clock import SystemClock
from ottla.store.interface import Changes, Node, Op
from ottla.store.memory import MemoryStore, MemoryTree


def broker_znode(broker_id: int, rack: str | None = None) -> BrokerZnode:
    return BrokerZnode((Endpoint("PLAINTEXT", f"host{broker_id}", 9092, "PLAINTEXT"),), rack, 1_700_000_000_000)


class Cluster:
    """Brokers on one in-memory tree. The first one is the controller."""

    def __init__(self, brokers: int, racks: Sequence[str | None] | None = None, seed: int = 0) -> None:
        self.tree = MemoryTree()
        self.random = random.Random(seed)
        self.image = ClusterImage()
        self.sessions: dict[int, int] = {}
        self.do(create_cluster_id(self.random.randbytes)[0])
        for broker_id in range(1, brokers + 1):
            self.join(broker_id, racks[broker_id - 1] if racks else None)
        if brokers:
            self.become_controller(1)

    def join(self, broker_id: int, rack: str | None = None) -> None:
        self.sessions[broker_id] = self.tree.begin_session(MemoryStore(self.tree, SystemClock()))
        self.do(register_broker(broker_id, broker_znode(broker_id, rack)), session=self.sessions[broker_id])

    def leave(self, broker_id: int) -> None:
        self.tree.end_session(self.sessions.pop(broker_id))
        self.follow()

    def become_controller(self, broker_id: int) -> None:
        self.do(elect_controller(self.image, broker_id, 0)[0], session=self.sessions[broker_id])

    @property
    def nodes(self) -> dict[str, Node]:
        """All parts of an image."""
        return {path: node for path, node in self.changes(0).nodes.items() if node is not None}

    def do(self, ops: Sequence[Op], session: int = 0) -> list[int]:
        versions = self.tree.commit(ops, session)
        self.follow()
        return versions

    def follow(self) -> None:
        self.image = self.image.advanced(self.changes(self.image.revision))

    def changes(self, since: int) -> Changes:
        async def read() -> Changes:
            store = MemoryStore(self.tree, SystemClock())
            await store.start()
            changes = await store.read_changes(since, *IMAGE_PREFIXES)
            await store.close()
            return changes

        return asyncio.run(read())
