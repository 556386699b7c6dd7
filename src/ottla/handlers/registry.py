"""The table of the APIs that this broker serves and advertises."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ottla.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    api_versions,
    consumer_group_heartbeat,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
    elect_leaders,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
    txn_offset_commit,
    write_txn_markers,
)
from ottla.handlers.context import Handler
from ottla.wire import api, codec
from ottla.wire.decoding import Decoder
from ottla.wire.encoding import Encoder
from ottla.wire.schema import Api, Request, Response

MAX_REQUEST = 1 << 20
"""The limit for most requests: two bytes on the wire can become a thousand in memory and in the reply."""

MAX_REQUEST_WITH_ASSIGNMENTS = 8 << 20
"""The limit for requests with metadata and assignments of group members, which can be long."""

ANY_SIZE = (1 << 31) - 1
"""No limit besides `socket.request.max.bytes`, which applies to every request."""


class Codec(NamedTuple):
    """Creates the functions that decode the requests and encode the responses of one version."""

    decoder_of: Callable[[type[Request], int], Decoder]
    encoder_of: Callable[[type[Response], int], Encoder]


OBJECTS = Codec(codec.decoder_of, codec.encoder_of)
TUPLES = Codec(codec.tuple_decoder_of, codec.tuple_encoder_of)
"""For the most frequent APIs: nested tuples cost a third of objects."""


class Served(NamedTuple):
    """One API: how to decode its requests, and its handler."""

    api: Api
    request: type[Request]
    handle: Handler
    advertised_from: int
    max_request_bytes: int
    codec: Codec


def _served(
    wire: Api,
    handle: Handler,
    *,
    advertised_from: int | None = None,
    max_request_bytes: int = MAX_REQUEST,
    messages: Codec = OBJECTS,
) -> tuple[int, Served]:
    since = wire.min_version if advertised_from is None else advertised_from
    return wire.key, Served(wire, wire.request, handle, since, max_request_bytes, messages)


HANDLERS: dict[int, Served] = dict(
    [
        # Old librdkafka enables compression only if Produce 0 is advertised (KAFKA-18659). It never sends Produce 0.
        _served(
            api.PRODUCE,
            produce.handle,
            advertised_from=0,
            max_request_bytes=ANY_SIZE,
            messages=TUPLES,
        ),
        _served(api.FETCH, fetch.handle, messages=TUPLES),
        _served(api.LIST_OFFSETS, list_offsets.handle),
        _served(api.METADATA, metadata.handle),
        _served(api.OFFSET_COMMIT, offset_commit.handle),
        _served(api.OFFSET_FETCH, offset_fetch.handle),
        _served(api.FIND_COORDINATOR, find_coordinator.handle),
        _served(api.JOIN_GROUP, join_group.handle, max_request_bytes=MAX_REQUEST_WITH_ASSIGNMENTS),
        _served(api.HEARTBEAT, heartbeat.handle),
        _served(api.LEAVE_GROUP, leave_group.handle),
        _served(api.SYNC_GROUP, sync_group.handle, max_request_bytes=MAX_REQUEST_WITH_ASSIGNMENTS),
        _served(api.DESCRIBE_GROUPS, describe_groups.handle),
        _served(api.LIST_GROUPS, list_groups.handle),
        _served(api.API_VERSIONS, api_versions.handle),
        _served(api.CREATE_TOPICS, create_topics.handle),
        _served(api.DELETE_TOPICS, delete_topics.handle),
        _served(api.DELETE_RECORDS, delete_records.handle),
        _served(api.INIT_PRODUCER_ID, init_producer_id.handle),
        _served(api.OFFSET_FOR_LEADER_EPOCH, offset_for_leader_epoch.handle),
        _served(api.ADD_PARTITIONS_TO_TXN, add_partitions_to_txn.handle),
        _served(api.ADD_OFFSETS_TO_TXN, add_offsets_to_txn.handle),
        _served(api.END_TXN, end_txn.handle),
        _served(api.WRITE_TXN_MARKERS, write_txn_markers.handle),
        _served(api.TXN_OFFSET_COMMIT, txn_offset_commit.handle),
        _served(api.DESCRIBE_CONFIGS, describe_configs.handle),
        _served(api.ALTER_CONFIGS, alter_configs.handle),
        _served(api.ALTER_REPLICA_LOG_DIRS, alter_replica_log_dirs.handle),
        _served(api.DESCRIBE_LOG_DIRS, describe_log_dirs.handle),
        _served(api.CREATE_PARTITIONS, create_partitions.handle),
        _served(api.DELETE_GROUPS, delete_groups.handle),
        _served(api.ELECT_LEADERS, elect_leaders.handle),
        _served(api.INCREMENTAL_ALTER_CONFIGS, incremental_alter_configs.handle),
        _served(api.ALTER_PARTITION_REASSIGNMENTS, alter_partition_reassignments.handle),
        _served(api.LIST_PARTITION_REASSIGNMENTS, list_partition_reassignments.handle),
        _served(api.OFFSET_DELETE, offset_delete.handle),
        _served(api.DESCRIBE_CLUSTER, describe_cluster.handle),
        _served(api.DESCRIBE_PRODUCERS, describe_producers.handle),
        _served(api.DESCRIBE_TRANSACTIONS, describe_transactions.handle),
        _served(api.LIST_TRANSACTIONS, list_transactions.handle),
        _served(api.CONSUMER_GROUP_HEARTBEAT, consumer_group_heartbeat.handle),
        _served(api.LIST_CONFIG_RESOURCES, list_config_resources.handle),
        _served(api.DESCRIBE_TOPIC_PARTITIONS, describe_topic_partitions.handle),
    ]
)

_, UNSUPPORTED_API_VERSIONS = _served(
    api.API_VERSIONS,
    api_versions.handle_unsupported_version,
    messages=Codec(lambda *_: lambda *_: (None, 0), codec.encoder_of),
)
"""For ApiVersions requests of an unsupported version. The reply has version 0 (KIP-511)."""
