"""A client of a whole cluster. It keeps one connection per broker, and the leader of each partition."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self, TypeVar

from ottla.client.connection import Connection, connect
from ottla.client.failures import ClientError, ConnectionFailed, GaveUp, check, is_retriable
from ottla.client.metadata import ClusterMetadata, cluster_metadata
from ottla.env.network import Address
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.wire.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.api.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.schema import Request, Response

R = TypeVar("R", bound=Response)
T = TypeVar("T")

GROUP = 0
TRANSACTION = 1
"""The key types of FindCoordinator."""

_FIND_COORDINATOR_VERSION = 3
"""The last version that looks up a single key."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    client_id: str = "ottla"
    connect_timeout: float = 10.0
    request_timeout: float = 30.0
    retry_timeout: float = 60.0
    """How long `Client.retry` retries after retriable errors."""
    retry_backoff: float = 0.1
    transport: dict[str, Any] | None = None
    """Further arguments for `loop.create_connection`, such as `ssl`."""


class Client:
    def __init__(self, bootstrap: Sequence[Address], settings: ClientSettings | None = None) -> None:
        self.settings = settings or ClientSettings()
        self._bootstrap = list(bootstrap)
        self._connections: dict[Address, asyncio.Task[Connection]] = {}
        self._metadata = ClusterMetadata({}, {}, {})

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        connections, self._connections = self._connections, {}
        for task in connections.values():
            task.cancel()
        for outcome in await asyncio.gather(*connections.values(), return_exceptions=True):
            if isinstance(outcome, Connection):
                outcome.close()

    async def call(self, node_id: int | None, request: Request, response: type[R], *, highest: int | None = None) -> R:
        """Send a request to one broker, or to any broker if `node_id` is None. `highest` limits the version."""
        connection = await (self._any() if node_id is None else self._to_node(node_id))
        return await connection.call(request, response, within=self.settings.request_timeout, highest=highest)

    async def metadata(self, topics: Iterable[str] | None) -> ClusterMetadata:
        """Fetch the metadata of the topics, or of all topics if None. The request does not create topics."""
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in sorted(set(topics))]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        response = await self.retry("metadata", lambda: self._ask_metadata(request))
        answer = cluster_metadata(response)
        known = answer.topics if wanted is None else {**self._metadata.topics, **answer.topics}
        self._metadata = replace(answer, topics={name: known[name] for name in known if name not in answer.errors})
        return answer

    async def _ask_metadata(self, request: MetadataRequest) -> MetadataResponse:
        return await self.call(None, request, MetadataResponse)

    async def leader(self, topic_partition: TopicPartition, *, refresh: bool = False) -> int:
        """The id of the partition's leader. Raises KafkaError while there is none."""
        if refresh or self._metadata.leader(topic_partition) is None:
            await self.metadata([topic_partition.topic])
        leader = self._metadata.leader(topic_partition)
        if leader is not None:
            return leader.node_id
        code = self._metadata.errors.get(topic_partition.topic)
        if code is None:
            topic = self._metadata.topics.get(topic_partition.topic)
            exists = topic is not None and topic_partition.partition in topic.leaders
            code = ErrorCode.LEADER_NOT_AVAILABLE if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        check(code, str(topic_partition))
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, str(topic_partition))

    async def leaders(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """The partitions, grouped by leader. One request fetches the metadata of all topics without a known leader."""
        wanted = list(partitions)
        missing = {each.topic for each in wanted if self._metadata.leader(each) is None}
        if missing:
            await self.metadata(missing)
        found: dict[int, list[TopicPartition]] = {}
        for each in wanted:
            found.setdefault(await self.leader(each), []).append(each)
        return found

    def forget_leaders(self, topics: Iterable[str]) -> None:
        """Drop the cached leaders of these topics, so that the next lookup fetches metadata."""
        gone = set(topics)
        kept = {name: topic for name, topic in self._metadata.topics.items() if name not in gone}
        self._metadata = replace(self._metadata, topics=kept)

    async def coordinator(self, key: str, kind: int = GROUP) -> int:
        """The id of the broker that coordinates a group or a transactional id."""
        request = FindCoordinatorRequest(key=key, key_type=kind)
        reply = await self.call(None, request, FindCoordinatorResponse, highest=_FIND_COORDINATOR_VERSION)
        check(reply.error_code, f"the coordinator of {key}")
        if reply.node_id not in self._metadata.brokers:
            address = Address(reply.host, reply.port)
            self._metadata = replace(self._metadata, brokers={**self._metadata.brokers, reply.node_id: address})
        return reply.node_id

    async def retry(self, what: str, attempt: Callable[[], Awaitable[T]], topics: Iterable[str] = ()) -> T:
        """Retry until the attempt succeeds, raises an error that is not retriable, or `retry_timeout` ends."""
        deadline = asyncio.get_running_loop().time() + self.settings.retry_timeout
        backoff = self.settings.retry_backoff
        while True:
            try:
                return await attempt()
            except (ClientError, KafkaError) as error:
                if not is_retriable(error):
                    raise
                if asyncio.get_running_loop().time() + backoff > deadline:
                    raise GaveUp(f"{what}: gave up after {self.settings.retry_timeout:g} s: {error}") from error
            self.forget_leaders(topics)
            await asyncio.sleep(backoff)
            backoff = min(2 * backoff, 1.0)

    async def _to_node(self, node_id: int) -> Connection:
        address = self._metadata.brokers.get(node_id)
        if address is None:
            raise ConnectionFailed(f"broker {node_id} is not known")
        return await self._to(address)

    async def _any(self) -> Connection:
        """A connection to any broker. Tries open connections first, then known brokers, then the bootstrap list."""
        candidates = dict.fromkeys([*self._connections, *self._metadata.brokers.values(), *self._bootstrap])
        failures = []
        for address in candidates:
            try:
                return await self._to(address)
            except ConnectionFailed as error:
                failures.append(str(error))
        raise ConnectionFailed("no broker could be reached: " + "; ".join(failures))

    async def _to(self, address: Address) -> Connection:
        """The connection to an address. Concurrent callers share one attempt to connect."""
        task = self._connections.get(address)
        if task is None or (task.done() and (task.cancelled() or task.exception() or task.result().closed)):
            settings = self.settings
            task = self._connections[address] = asyncio.ensure_future(
                connect(
                    address,
                    client_id=settings.client_id,
                    within=settings.connect_timeout,
                    **(settings.transport or {}),
                )
            )
        try:
            return await asyncio.shield(task)
        except ConnectionFailed:
            if self._connections.get(address) is task:
                del self._connections[address]
            raise


def parse_bootstrap(servers: str) -> list[Address]:
    """The addresses in a `bootstrap.servers` value. An entry may have a protocol prefix, as in listeners."""
    addresses = []
    for entry in servers.split(","):
        if not entry.strip():
            continue
        host, separator, port = entry.strip().rpartition("://")[2].rpartition(":")
        if not separator or not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"{entry.strip()!r} in bootstrap.servers is not host:port")
        addresses.append(Address(host.strip("[]"), int(port)))
    if not addresses:
        raise ValueError("bootstrap.servers names no broker")
    return addresses
