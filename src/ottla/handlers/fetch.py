"""Fetch (1), versions 4-18: committed records from offsets on, at once or as soon as there are enough of them.

Records leave as slices of segment files. Version 7 brings sessions (KIP-227), 9 leader epochs, 13 topic ids. From 11 on
followers answer consumers too, and leaders tell those that name their rack which replica to ask (KIP-392).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.exchange import PendingReply
from ottla.handlers.leader_hints import NO_LEADER, LeaderHints
from ottla.model import ISOLATION_LEVELS, READ_COMMITTED, ZERO_TOPIC_ID, TopicId
from ottla.replication.fetch_sessions import FetchPartition
from ottla.replication.reads import CONSUMER, Fetch, Reader

if TYPE_CHECKING:
    from ottla.env.network import Part
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange, Reply
    from ottla.replication.fetch_sessions import Key

Request: TypeAlias = "tuple[Any, ...]"
"""`FetchRequest` as a tuple."""

Answer: TypeAlias = "tuple[Any, ...]"
"""`PartitionData` as a tuple: partition, error code, high watermark, last stable offset, log start offset, diverging
epoch, leader id and epoch, snapshot id, aborted transactions, preferred replica, records."""

_ANY_REPLICA_SINCE = 11
_TOPIC_IDS_SINCE = 13
_NONE = (-1, -1)
"""No diverging epoch, no snapshot."""
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
            session_id, epoch, _partitions(topics, by_id), _forgotten(forgotten, by_id), by_id
        )
    except KafkaError as error:
        return exchange.encode((0, error.code, 0, [], []))
    replica = max(old_replica, state[0])
    consumes = replica <= CONSUMER
    reader = Reader(
        replica,
        max_wait_ms,
        min_bytes,
        max_bytes,
        consumes and isolation == READ_COMMITTED,
        consumes and version >= _ANY_REPLICA_SINCE,
        rack,
        exchange.session.listener,
    )
    fetch = Fetch(broker.reads, reader, session)
    fetch.read()
    if fetch.is_ready():
        return _encode(broker, exchange, fetch)
    fetch.wait()
    return PendingReply(fetch, partial(_read_again, broker, exchange))


def _partitions(topics: list[Any], by_id: bool) -> list[FetchPartition]:
    return [
        FetchPartition((topic_id if by_id else topic, index), offset, max_bytes, leader_epoch, last_epoch, log_start)
        for topic, topic_id, partitions in topics
        for index, leader_epoch, offset, last_epoch, log_start, max_bytes, _, _ in partitions
    ]


def _forgotten(topics: list[Any], by_id: bool) -> list[Key]:
    return [(topic_id if by_id else topic, index) for topic, topic_id, partitions in topics for index in partitions]


def _read_again(broker: Broker, exchange: Exchange, fetch: Fetch) -> list[Part]:
    fetch.read()
    return _encode(broker, exchange, fetch)


def _encode(broker: Broker, exchange: Exchange, fetch: Fetch) -> list[Part]:
    responses: dict[str | TopicId, tuple[str, TopicId, list[Answer]]] = {}
    session, hints = fetch.session, None
    for read in fetch.found:
        wanted, high_watermark, stable, log_start, records, ended, error, diverging, replica = read
        urgent = records is not None or error != 0 or diverging is not None or replica >= 0
        if not session.has_news(wanted, high_watermark, log_start, urgent):
            continue
        topic, index = wanted.key
        response = responses.get(topic)
        if response is None:
            response = responses[topic] = ("", topic, []) if isinstance(topic, bytes) else (topic, ZERO_TOPIC_ID, [])
        leader = NO_LEADER
        if error in _MOVED:
            hints = hints or LeaderHints(broker, exchange)
            leader = hints.leader(response[0], response[1], index)
        response[2].append(
            (
                index,
                error,
                high_watermark,
                stable,
                log_start,
                _NONE if diverging is None else (diverging.epoch, diverging.start_offset),
                leader,
                _NONE,
                None if ended is None else [(it.producer_id, it.first_offset) for it in ended],
                replica,
                b"" if records is None else records,
            )
        )
        if records is not None and not session.full:
            session.served(wanted.key)
    endpoints = () if hints is None else hints.endpoints()
    return exchange.encode((0, 0, session.id, list(responses.values()), endpoints))


def _refuse_all(exchange: Exchange, topics: list[Any], code: ErrorCode) -> list[Part]:
    """What Kafka answers to a request that it cannot make sense of."""
    responses: list[tuple[str, TopicId, list[Answer]]] = [
        (
            topic,
            topic_id,
            [(it[0], code, -1, -1, -1, _NONE, NO_LEADER, _NONE, [], -1, b"") for it in partitions],
        )
        for topic, topic_id, partitions in topics
    ]
    return exchange.encode((0, code, 0, responses, []))
