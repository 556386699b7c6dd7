"""Fetches from leaders: one connection with one fetch in flight to each broker that leads partitions followed here."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ottla.client.connection import Connection, connect
from ottla.client.failures import ClientError
from ottla.config.listeners import inter_broker_listener
from ottla.env.network import Address
from ottla.errors import ErrorCode, KafkaError
from ottla.model import EARLIEST_TIMESTAMP, TopicPartition
from ottla.replication.following import Position, position, take_over
from ottla.wire.api.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from ottla.wire.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from ottla.cluster.image import ClusterImage
    from ottla.config.broker import BrokerConfig
    from ottla.model import LeaderEpoch, TopicId
    from ottla.replication.partition import Partition
    from ottla.replication.replicas import Replicas
    from ottla.replication.throttling import ReplicationThrottle

logger = logging.getLogger("ottla.replicas")

_BACKOFF_SECONDS = 0.2
_CONNECT_SECONDS = 5.0
_TRANSIENT_ERRORS = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER)


class _Requested(NamedTuple):
    """The state of a partition in a fetch request."""

    partition: Partition
    at: Position
    epoch: LeaderEpoch

    def is_out_of_date(self, partition: Partition) -> bool:
        """Whether the partition has changed since. The epoch of the last record is not compared, because it cannot
        change while the end of the log stays the same."""
        known, at, epoch = self
        log = partition.log
        return (
            at.offset != log.end_offset
            or known is not partition
            or epoch != partition.leader_epoch
            or at.log_start_offset != log.log_start_offset
        )


class LeaderFetcher:
    """Fetches all partitions that this broker follows from one leader."""

    def __init__(
        self,
        broker_id: int,
        leader: int,
        address: Address,
        config: Callable[[], BrokerConfig],
        throttle: ReplicationThrottle,
    ) -> None:
        self.address = address
        self._broker_id = broker_id
        self._leader = leader
        self._config = config
        self._throttle = throttle
        self._caught_up: set[TopicPartition] = set()
        """Partitions of which this broker has all committed records."""
        self._partitions: dict[TopicPartition, Partition] = {}
        self._topics: dict[TopicId, str] = {}
        """The names of the topics of `_partitions`."""
        self._requested: dict[TopicPartition, _Requested] = {}
        """The partitions in the leader's fetch session (KIP-227)."""
        self._failing: set[TopicPartition] = set()
        """Partitions that cannot be followed. Each is logged once."""
        self._backing_off: dict[TopicPartition, float] = {}
        """Partitions with an error, and the time until which fetches leave them out."""
        self._session_id = 0
        self._session_epoch = 0
        self._stopped = False
        self._failure_logged = False
        """Whether the log already says that this leader cannot be reached."""
        self._changed = asyncio.Event()
        self._task = asyncio.ensure_future(self._run())

    def follow(self, partitions: dict[TopicPartition, Partition]) -> None:
        self._partitions = partitions
        self._topics = {partition.topic_id: key.topic for key, partition in partitions.items()}
        self._changed.set()

    def stop(self) -> None:
        # The flag is needed too: the task can miss a cancellation if the connection fails at the same moment.
        self._stopped = True
        self._task.cancel()

    async def _run(self) -> None:
        while not self._stopped:
            connection: Connection | None = None
            try:
                connection = await connect(
                    self.address, client_id=f"broker-{self._broker_id}-fetcher", within=_CONNECT_SECONDS
                )
                self._forget_session()
                while not self._stopped:
                    await self._fetch(connection)
                    self._failure_logged = False
            except ClientError as error:
                level = logging.DEBUG if self._failure_logged else logging.INFO
                logger.log(level, "cannot fetch from broker %d, will retry: %s", self._leader, error)
                self._failure_logged = True
            except Exception:
                logger.exception("fetching from broker %d failed, will retry", self._leader)
            finally:
                if connection is not None:
                    connection.close()
            await asyncio.sleep(_BACKOFF_SECONDS)

    def _forget_session(self) -> None:
        self._session_id = self._session_epoch = 0
        self._requested.clear()

    async def _fetch(self, connection: Connection) -> None:
        wanted = self._wanted()
        if not wanted:
            self._changed.clear()
            await self._pause()
            return
        request = self._request(wanted)
        timeout = self._config().integer("replica.socket.timeout.ms") / 1000
        response = await connection.call(request, FetchResponse, within=timeout)
        if response.error_code:
            self._forget_session()
            if response.error_code not in (
                ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
            ):
                await asyncio.sleep(_BACKOFF_SECONDS)
            return
        self._session_id = response.session_id
        self._session_epoch = self._session_epoch % (2**31 - 1) + 1 if response.session_id else 0
        self._requested = wanted
        syncs = []
        for topic in response.responses:
            for answer in topic.partitions:
                key = TopicPartition(self._topics.get(topic.topic_id, ""), answer.partition_index)
                if key in wanted and (sync := await self._take(connection, key, *wanted[key], answer)):
                    syncs.append(sync)
        if syncs:
            await asyncio.gather(*syncs, return_exceptions=True)  # A partition whose sync fails is offline.

    async def _pause(self) -> None:
        """Wait until there are partitions to follow, or until the backoff of partitions with an error or over the
        throttle is over."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), _BACKOFF_SECONDS if self._partitions else None)

    def _wanted(self) -> dict[TopicPartition, _Requested]:
        """The partitions to fetch. A fetch tells the leader that this follower has stored everything before the fetch
        offset, so a partition that is offline or must sync first is left out.

        This runs for every fetch and partition, so it does little for a partition without changes: it reuses the entry
        of the last request.
        """
        now = asyncio.get_running_loop().time()
        self._backing_off = {key: until for key, until in self._backing_off.items() if until > now}
        requested, backing_off, caught_up = self._requested, self._backing_off, self._caught_up
        wanted = {}
        for key, partition in self._partitions.items():
            if (
                key in backing_off
                or not partition.ready_to_fetch()
                or (key not in caught_up and self._is_throttled(partition))
            ):
                continue
            known = requested.get(key)
            if known is None or known.is_out_of_date(partition):
                known = _Requested(partition, position(partition), partition.leader_epoch)
            wanted[key] = known
        return wanted

    def _is_throttled(self, partition: Partition) -> bool:
        return self._throttle.concerns(partition) and self._throttle.is_exceeded()

    def _request(self, wanted: dict[TopicPartition, _Requested]) -> FetchRequest:
        """An incremental fetch names only the partitions that changed since the last fetch (KIP-227)."""
        config = self._config()
        incremental = bool(self._session_id)
        topics: dict[bytes, FetchTopic] = {}
        for key, new in wanted.items():
            if incremental and self._requested.get(key) is new:
                continue
            partition, at, epoch = new
            topic = topics.setdefault(partition.topic_id, FetchTopic(topic_id=partition.topic_id))
            topic.partitions.append(
                FetchPartition(
                    partition=key.partition,
                    current_leader_epoch=epoch,
                    fetch_offset=at.offset,
                    last_fetched_epoch=at.last_epoch,
                    log_start_offset=at.log_start_offset,
                    partition_max_bytes=config.integer("replica.fetch.max.bytes"),
                )
            )
        forgotten: dict[bytes, ForgottenTopic] = {}
        for key, (partition, _, _) in self._requested.items() if incremental else ():
            if key not in wanted or wanted[key][0] is not partition:
                gone = forgotten.setdefault(partition.topic_id, ForgottenTopic(topic_id=partition.topic_id))
                gone.partitions.append(key.partition)
        return FetchRequest(
            replica_state=ReplicaState(replica_id=self._broker_id),
            max_wait_ms=config.integer("replica.fetch.wait.max.ms"),
            min_bytes=config.integer("replica.fetch.min.bytes"),
            max_bytes=config.integer("replica.fetch.response.max.bytes"),
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=list(topics.values()),
            forgotten_topics_data=list(forgotten.values()),
        )

    async def _take(
        self,
        connection: Connection,
        key: TopicPartition,
        partition: Partition,
        at: Position,
        epoch: LeaderEpoch,
        answer: PartitionData,
    ) -> asyncio.Future[None] | None:
        """Apply the reply for one partition, unless the partition has changed since the request."""
        if self._partitions.get(key) is not partition or partition.leads or partition.leader_epoch != epoch:
            return None
        if position(partition) != at:
            return None
        try:
            if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                await self._restart_at_leader_start(connection, key, partition, epoch)
            elif answer.error_code:
                raise KafkaError(ErrorCode(answer.error_code))
            else:
                synced = take_over(partition, answer)
                self._failing.discard(key)
                if self._throttle.concerns(partition):
                    self._throttle.record(len(answer.records or b""))
                if answer.high_watermark <= partition.log.end_offset:
                    self._caught_up.add(key)
                else:
                    self._caught_up.discard(key)
                return synced
        except (KafkaError, OSError) as error:
            # Brokers learn of a new leader at different times, so such errors are normal for a short time.
            transient = isinstance(error, KafkaError) and error.code in _TRANSIENT_ERRORS
            level = logging.DEBUG if transient or key in self._failing else logging.WARNING
            logger.log(level, "%s: cannot follow the leader, will retry: %s", partition, error)
            if not transient:
                self._failing.add(key)
            self._backing_off[key] = asyncio.get_running_loop().time() + _BACKOFF_SECONDS
        return None

    async def _restart_at_leader_start(
        self, connection: Connection, key: TopicPartition, partition: Partition, epoch: LeaderEpoch
    ) -> None:
        """Start over at the leader's log start: the leader has deleted the records after the end of this log."""
        wanted = ListOffsetsPartition(
            partition_index=key.partition, current_leader_epoch=epoch, timestamp=EARLIEST_TIMESTAMP
        )
        request = ListOffsetsRequest(
            replica_id=self._broker_id, topics=[ListOffsetsTopic(name=key.topic, partitions=[wanted])]
        )
        response = await connection.call(request, ListOffsetsResponse, within=_CONNECT_SECONDS)
        [answer] = response.topics[0].partitions
        if answer.error_code:
            raise KafkaError(ErrorCode(answer.error_code))
        if partition.leads or partition.leader_epoch != epoch:
            return
        logger.warning("%s: the leader no longer has the next records; starting over at offset %d", key, answer.offset)
        partition.restart_at(answer.offset)


class ReplicaFetchers:
    """One fetcher for each broker that leads partitions followed here."""

    def __init__(
        self,
        broker_id: int,
        replicas: Replicas,
        config: Callable[[], BrokerConfig],
        throttle: ReplicationThrottle,
    ) -> None:
        self._throttle = throttle
        self._broker_id = broker_id
        self._replicas = replicas
        self._config = config
        self._fetchers: dict[int, LeaderFetcher] = {}
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True
        for fetcher in self._fetchers.values():
            fetcher.stop()
        self._fetchers.clear()

    def apply(self, image: ClusterImage, config: BrokerConfig) -> None:
        """Follow the leaders of a new image. `Replicas.apply` must run first with the same image."""
        if self._stopped:
            return
        followed: dict[int, dict[TopicPartition, Partition]] = {}
        for partition in self._replicas:
            key = partition.topic_partition
            state = image.partition(*key)
            if state is not None and not partition.leads and state.leader in image.brokers:
                followed.setdefault(state.leader, {})[key] = partition
        listener = inter_broker_listener(config)
        for leader, fetcher in list(self._fetchers.items()):
            broker = image.brokers.get(leader)
            endpoint = None if broker is None else broker.endpoint(listener)
            moved = endpoint is None or (endpoint.host, endpoint.port) != fetcher.address
            if moved or leader not in followed:
                fetcher.stop()
                del self._fetchers[leader]
        for leader, partitions in followed.items():
            self._follow(leader, image, listener, partitions)

    def _follow(
        self, leader: int, image: ClusterImage, listener: str, partitions: dict[TopicPartition, Partition]
    ) -> None:
        fetcher = self._fetchers.get(leader)
        if fetcher is None:
            endpoint = image.brokers[leader].endpoint(listener)
            if endpoint is None:
                logger.error("cannot fetch from broker %d: it has no listener %s", leader, listener)
                return
            address = Address(endpoint.host, endpoint.port)
            fetcher = self._fetchers[leader] = LeaderFetcher(
                self._broker_id, leader, address, self._config, self._throttle
            )
        fetcher.follow(partitions)
