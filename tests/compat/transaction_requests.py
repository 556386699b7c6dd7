"""The requests around a transaction, in any version, with plain values going in and plain answers coming out."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from ottla.wire import codec
from ottla.wire.api.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from ottla.wire.framing import parse_response_header, request_header
from tests.compat.deadlines import eventually
from tests.compat.wire import Connection
from tests.compat.wire_requests import LARGE, topic_id_of

READ_UNCOMMITTED, READ_COMMITTED = 0, 1


class Producer(NamedTuple):
    producer_id: int
    epoch: int


class Place(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


class Member(NamedTuple):
    """Who commits offsets; the default is nobody, which a group that takes part in no rebalance accepts."""

    generation: int = -1
    member_id: str = ""
    instance_id: str | None = None


def init(
    connection: Connection,
    transactional_id: str | None,
    *,
    version: int = 5,
    timeout_ms: int = 60_000,
    expected: Producer | None = None,
    **more: Any,
) -> Any:
    if expected is not None:
        more |= {"producer_id": expected.producer_id, "producer_epoch": expected.epoch}
    timeout = timedelta(milliseconds=timeout_ms)
    return connection.call(
        "init_producer_id", version, transactional_id=transactional_id, transaction_timeout=timeout, **more
    )


def add_partitions(
    connection: Connection, transactional_id: str, producer: Producer, places: Sequence[Place], version: int = 3
) -> dict[Place, ErrorCode]:
    reply = connection.call(
        "add_partitions_to_txn",
        version,
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=_topics(places),
    )
    return _partition_errors(reply.results_by_topic_v3_and_below)


def add_many(
    connection: Connection,
    transactions: Mapping[str, tuple[Producer, Sequence[Place]]],
    *,
    verify_only: bool,
    version: int = 5,
) -> dict[str, dict[Place, ErrorCode]]:
    """What brokers ask a coordinator for many producers at once (KIP-890)."""
    asked = [
        {
            "transactional_id": transactional_id,
            "producer_id": producer.producer_id,
            "producer_epoch": producer.epoch,
            "verify_only": verify_only,
            "topics": _topics(places),
        }
        for transactional_id, (producer, places) in transactions.items()
    ]
    reply = connection.call("add_partitions_to_txn", version, transactions=asked)
    assert reply.error_code is ErrorCode.none
    return {each.transactional_id: _partition_errors(each.topic_results) for each in reply.results_by_transaction}


def _topics(places: Iterable[Place]) -> list[dict[str, Any]]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in places:
        by_topic.setdefault(topic, []).append(partition)
    return [{"name": topic, "partitions": partitions} for topic, partitions in by_topic.items()]


def _partition_errors(results: Iterable[Any]) -> dict[Place, ErrorCode]:
    return {
        Place(topic.name, each.partition_index): each.partition_error_code
        for topic in results
        for each in topic.results_by_partition
    }


def add_offsets(
    connection: Connection, transactional_id: str, producer: Producer, group: str, version: int = 4
) -> ErrorCode:
    reply = connection.call(
        "add_offsets_to_txn",
        version,
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        group_id=group,
    )
    error: ErrorCode = reply.error_code
    return error


def end(connection: Connection, transactional_id: str, producer: Producer, *, committed: bool, version: int = 5) -> Any:
    return connection.call(
        "end_txn",
        version,
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        committed=committed,
    )


def commit_offsets(
    connection: Connection,
    transactional_id: str,
    producer: Producer,
    group: str,
    offsets: Mapping[Place, int],
    *,
    member: Member | None = None,
    version: int = 5,
) -> dict[Place, ErrorCode]:
    """`member` needs version 3 or newer, before which the request could not name one."""
    named = {} if member is None else _member_fields(member, "generation_id")
    topics = _offset_topics(offsets)
    reply = connection.call(
        "txn_offset_commit",
        version,
        transactional_id=transactional_id,
        group_id=group,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=topics,
        **named,
    )
    return _offset_errors(reply)


def commit_offsets_plainly(
    connection: Connection, group: str, offsets: Mapping[Place, int], member: Member
) -> dict[Place, ErrorCode]:
    """Outside of any transaction."""
    named = _member_fields(member, "generation_id_or_member_epoch")
    return _offset_errors(connection.call("offset_commit", 8, group_id=group, topics=_offset_topics(offsets), **named))


def _member_fields(member: Member, generation_field: str) -> dict[str, Any]:
    names = (generation_field, "member_id", "group_instance_id")
    return dict(zip(names, member, strict=True))


def _offset_topics(offsets: Mapping[Place, int]) -> list[dict[str, Any]]:
    return [
        {
            "name": place.topic,
            "partitions": [
                {"partition_index": place.partition, "committed_offset": offset, "committed_metadata": "note"}
            ],
        }
        for place, offset in offsets.items()
    ]


def _offset_errors(reply: Any) -> dict[Place, ErrorCode]:
    return {
        Place(topic.name, each.partition_index): each.error_code for topic in reply.topics for each in topic.partitions
    }


def committed(connection: Connection, group: str, place: Place, *, stable: bool, version: int = 8) -> Any:
    """The group's own error, or that of the partition with its offset."""
    topic: dict[str, Any] = {"name": place.topic, "partition_indexes": [place.partition]}
    if version < 7:
        reply = connection.call("offset_fetch", version, group_id=group, topics=[topic])
    elif version < 8:
        reply = connection.call("offset_fetch", version, group_id=group, topics=[topic], require_stable=stable)
    else:
        if version > 9:
            topic = {"topic_id": topic_id_of(connection, place.topic), "partition_indexes": [place.partition]}
        asked = {"group_id": group, "topics": [topic]}
        [reply] = connection.call("offset_fetch", version, groups=[asked], require_stable=stable).groups
    [answer] = reply.topics[0].partitions if reply.topics else [reply]
    return answer


def produce(
    connection: Connection, transactional_id: str | None, records: Mapping[Place, bytes], version: int, acks: int = -1
) -> dict[Place, Any]:
    """One request with a batch for each of several partitions; the partitions' parts of the reply."""
    names = send_produce(connection, transactional_id, records, version, acks)
    reply = connection.receive("produce", version)
    return {
        Place(names[topic.topic_id if version > 12 else topic.name], each.index): each
        for topic in reply.responses
        for each in topic.partition_responses
    }


def send_produce(
    connection: Connection, transactional_id: str | None, records: Mapping[Place, bytes], version: int, acks: int = -1
) -> dict[Any, str]:
    """The topics, by what they are called in the reply."""
    names: dict[Any, str] = {place.topic: place.topic for place in records}
    if version > 12:
        names = {topic_id_of(connection, topic): topic for topic in names}
    topic_data = [
        {
            "topic_id" if version > 12 else "name": called,
            "partition_data": [
                {"index": place.partition, "records": batch} for place, batch in records.items() if place.topic == topic
            ],
        }
        for called, topic in names.items()
    ]
    fields = {"transactional_id": transactional_id, "acks": acks, "timeout": timedelta(seconds=10)}
    connection.send("produce", version, topic_data=topic_data, **fields)
    return names


def fetch(connection: Connection, place: Place, *, version: int = 12, **settings: Any) -> Any:
    """The partition's part of the reply."""
    send_fetch(connection, place, version=version, **settings)
    [answer] = connection.receive("fetch", version).responses[0].partitions
    return answer


def send_fetch(
    connection: Connection,
    place: Place,
    *,
    offset: int = 0,
    isolation: int = READ_COMMITTED,
    max_bytes: int = LARGE,
    wait_ms: int = 0,
    version: int = 12,
) -> None:
    name: dict[str, Any] = {"topic": place.topic}
    if version > 12:
        name = {"topic_id": topic_id_of(connection, place.topic)}
    asked = {"partition": place.partition, "fetch_offset": offset, "partition_max_bytes": max_bytes}
    connection.send(
        "fetch",
        version,
        max_wait=timedelta(milliseconds=wait_ms),
        min_bytes=1,
        isolation_level=isolation,
        topics=[{**name, "partitions": [asked]}],
    )


def list_offset(
    connection: Connection, place: Place, timestamp: int, *, isolation: int = READ_UNCOMMITTED, version: int = 10
) -> Any:
    fields: dict[str, Any] = {"isolation_level": isolation} if version > 1 else {}
    if version > 9:
        fields["timeout"] = timedelta(seconds=5)
    asked = {"partition_index": place.partition, "timestamp": timestamp}
    topics = [{"name": place.topic, "partitions": [asked]}]
    reply = connection.call("list_offsets", version, replica_id=-1, topics=topics, **fields)
    [answer] = reply.topics[0].partitions
    return answer


def write_markers(
    connection: Connection,
    producer: Producer,
    places: Sequence[Place],
    *,
    committed: bool,
    coordinator_epoch: int = 0,
    version: int = 1,
    **more: Any,
) -> dict[Place, ErrorCode]:
    topics = [{"name": each["name"], "partition_indexes": each["partitions"]} for each in _topics(places)]
    marker = {
        "producer_id": producer.producer_id,
        "producer_epoch": producer.epoch,
        "transaction_result": committed,
        "topics": topics,
        "coordinator_epoch": coordinator_epoch,
        **more,
    }
    [answer] = connection.call("write_txn_markers", version, markers=[marker]).markers
    return _offset_errors(answer)


def describe(connection: Connection, transactional_id: str) -> TransactionState:
    [answer] = describe_many(connection, [transactional_id])
    return answer


def describe_many(connection: Connection, transactional_ids: Sequence[str]) -> Sequence[TransactionState]:
    """kio cannot read a start time of -1, which every transactional id has before its first transaction."""
    request = DescribeTransactionsRequest(transactional_ids=list(transactional_ids))
    connection.send_frame(request_header(request.api_key, 0, 0, "wire") + codec.encode(request, 0))
    frame = memoryview(connection.receive_frame())
    position = parse_response_header(request.api_key, 0, frame).body_position
    reply, end_position = codec.decode(DescribeTransactionsResponse, frame, 0, position)
    assert end_position == len(frame)
    return reply.transaction_states


def describe_producers(connection: Connection, place: Place) -> Any:
    topics = [{"name": place.topic, "partition_indexes": [place.partition]}]
    [answer] = connection.call("describe_producers", 0, topics=topics).topics[0].partitions
    return answer


def settled(connection: Connection, transactional_id: str) -> bool:
    """Whether no markers are still to be written."""
    return "Prepare" not in describe(connection, transactional_id).transaction_state


def settle(connection: Connection, transactional_id: str) -> None:
    """An end is answered when it is decided; the markers come a moment later."""
    eventually(lambda: settled(connection, transactional_id), interval=0.005)


def prepare(connection: Connection) -> None:
    """The topics of the coordinators are made when somebody asks for a coordinator, and take a moment."""

    def found(key_type: int) -> bool:
        [each] = connection.call("find_coordinator", 4, key_type=key_type, coordinator_keys=["any"]).coordinators
        return each.error_code is ErrorCode.none

    for key_type in (0, 1):
        eventually(lambda: found(key_type))  # noqa: B023
    eventually(lambda: init(connection, "any").error_code is ErrorCode.none)


def join(connection: Connection, group: str, member_id: str = "", instance_id: str | None = None) -> Any:
    """Become the only member of a group, or start its next generation."""
    fields = {
        "group_id": group,
        "session_timeout": timedelta(seconds=30),
        "rebalance_timeout": timedelta(seconds=30),
        "group_instance_id": instance_id,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }
    reply = connection.call("join_group", 7, member_id=member_id, **fields)
    if reply.error_code is ErrorCode.member_id_required:
        reply = connection.call("join_group", 7, member_id=reply.member_id, **fields)
    assignments = [{"member_id": reply.member_id, "assignment": b"all"}]
    synced = connection.call(
        "sync_group",
        5,
        group_id=group,
        generation_id=reply.generation_id,
        member_id=reply.member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=assignments,
    )
    assert synced.error_code is ErrorCode.none
    return reply
