"""Fetch (1), versions 4-18: committed records from offsets on, at once or as soon as there are enough of them.

Records leave as slices of segment files. Version 7 brings sessions (KIP-227), 9 leader epochs, 13 topic ids. From 11 on
followers answer consumers too, and leaders tell those that name their rack which replica to ask (KIP-392).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.exchange import PendingReply
from ottla.handlers.leader_hints import LeaderHints
from ottla.model import ISOLATION_LEVELS, READ_COMMITTED
from ottla.replication.fetch_sessions import FetchSession
from ottla.replication.reads import CONSUMER, Fetch, PartitionRead, Reader

if TYPE_CHECKING:
    from ottla.env.network import Part
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange, Reply
    from ottla.handlers.leader_hints import Endpoint
    from ottla.replication.fetch_sessions import Key, Wanted
    from ottla.replication.reads import TopicRead

Request: TypeAlias = "tuple[Any, ...]"
"""`FetchRequest` as a tuple."""

_ANY_REPLICA_SINCE = 11
_TOPIC_IDS_SINCE = 13
_MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def handle(broker: Broker, exchange: Exchange, request: Request) -> Reply:
    (
        _,
        old_replica,
        state,
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation,
        session_id,
        epoch,
        topics,
        forgotten,
        rack,
    ) = request
    if isolation not in ISOLATION_LEVELS:
        return _refuse_all(exchange, topics, ErrorCode.UNKNOWN_SERVER_ERROR)
    version = exchange.api_version
    by_id = version >= _TOPIC_IDS_SINCE
    try:
        session = broker.fetch_sessions.begin(
            session_id, epoch, _partitions(topics, by_id), _forgotten(forgotten, by_id) if forgotten else [], by_id
        )
    except KafkaError as error:
        return exchange.encode((0, error.code, 0, [], []))
    replica = old_replica if old_replica >= 0 else state[0]
    consumes = replica <= CONSUMER
    committed_only = consumes and isolation == READ_COMMITTED
    any_replica = consumes and version >= _ANY_REPLICA_SINCE
    reader = (replica, max_wait_ms, min_bytes, max_bytes, committed_only, any_replica, rack, exchange.session.listener)
    fetch = Fetch(broker.reads, tuple.__new__(Reader, reader), session)  # Twice as fast as to call the class.
    fetch.read()
    if fetch.is_ready():
        return _encode(broker, exchange, fetch)
    fetch.wait()
    return PendingReply(fetch, partial(_read_again, broker, exchange))


def _partitions(topics: list[Any], by_id: bool) -> list[tuple[Key, Wanted]]:
    return [
        ((topic_id if by_id else topic, wanted[0]), wanted)
        for topic, topic_id, partitions in topics
        for wanted in partitions
    ]


def _forgotten(topics: list[Any], by_id: bool) -> list[Key]:
    return [(topic_id if by_id else topic, index) for topic, topic_id, partitions in topics for index in partitions]


def _read_again(broker: Broker, exchange: Exchange, fetch: Fetch) -> list[Part]:
    fetch.read()
    return _encode(broker, exchange, fetch)


def _encode(broker: Broker, exchange: Exchange, fetch: Fetch) -> list[Part]:
    session = fetch.session
    topics = list(fetch.found.values())
    if isinstance(session, FetchSession):
        topics = _with_news(session, topics)
    endpoints: Sequence[Endpoint] = ()
    if fetch.urgent:
        hints = LeaderHints(broker, exchange)
        for name, topic_id, reads in topics:
            for position, read in enumerate(reads):
                if read.error in _MOVED:
                    reads[position] = read._replace(leader=hints.leader(name, topic_id, read.partition))
        endpoints = hints.endpoints()
    return exchange.encode((0, 0, session.id, topics, endpoints))


def _with_news(session: FetchSession, topics: list[TopicRead]) -> list[TopicRead]:
    """The reads that the reply to an incremental fetch must have."""
    news = []
    for name, topic_id, reads in topics:
        topic = topic_id if session.by_topic_id else name
        told = [read for read in reads if session.has_news((topic, read.partition), read)]
        if told:
            news.append((name, topic_id, told))
    return news


def _refuse_all(exchange: Exchange, topics: list[Any], code: ErrorCode) -> list[Part]:
    """What Kafka answers to a request that it cannot make sense of."""
    responses = [
        (topic, topic_id, [PartitionRead(each[0], code, -1, -1, -1, aborted=[]) for each in partitions])
        for topic, topic_id, partitions in topics
    ]
    return exchange.encode((0, code, 0, responses, []))
