"""Produce, Fetch, ListOffsets, DeleteRecords, OffsetForLeaderEpoch, DescribeProducers."""

from collections.abc import Iterator

from ottla.model import TopicId
from ottla.records.builder import NewRecord, build_batch
from ottla.records.format import Codec
from ottla.wire.api.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.wire.api.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from ottla.wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.api.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.compat.differential.case import Case, Talk, case, versions
from tests.compat.differential.world import TIME, record

UNKNOWN_ID = TopicId(b"no such topic id")
LIST, FETCH, PRODUCE = range(1, 12), range(4, 13), range(3, 13)

Asked = tuple[str, int, int]
"""A topic, a partition and a timestamp or offset."""


def offsets(*asked: Asked, isolation: int = 0, epoch: int = -1, replica: int = -1) -> ListOffsetsRequest:
    topics: dict[str, ListOffsetsTopic] = {}
    for name, index, timestamp in asked:
        wanted = ListOffsetsPartition(partition_index=index, current_leader_epoch=epoch, timestamp=timestamp)
        topics.setdefault(name, ListOffsetsTopic(name=name)).partitions.append(wanted)
    return ListOffsetsRequest(
        replica_id=replica, isolation_level=isolation, topics=list(topics.values()), timeout_ms=1000
    )


def offsets_of_two_topics(name: str) -> ListOffsetsRequest:
    """The same topic as two entries."""
    wanted = [ListOffsetsPartition(partition_index=0, timestamp=-1)]
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=wanted)] * 2)


def fetch(
    *asked: Asked,
    isolation: int = 0,
    epoch: int = -1,
    fetched_epoch: int = -1,
    max_bytes: int = 1 << 20,
    total: int = 1 << 24,
    session: tuple[int, int] = (0, -1),
    min_bytes: int = 0,
    wait: int = 0,
    replica: int = -1,
    ids: dict[str, TopicId] | None = None,
) -> FetchRequest:
    topics: dict[str, FetchTopic] = {}
    for name, index, offset in asked:
        wanted = FetchPartition(
            partition=index,
            current_leader_epoch=epoch,
            fetch_offset=offset,
            last_fetched_epoch=fetched_epoch,
            partition_max_bytes=max_bytes,
        )
        topic = FetchTopic(topic=name, topic_id=(ids or {}).get(name, UNKNOWN_ID))
        topics.setdefault(name, topic).partitions.append(wanted)
    return FetchRequest(
        replica_id=replica,
        max_wait_ms=wait,
        min_bytes=min_bytes,
        max_bytes=total,
        isolation_level=isolation,
        session_id=session[0],
        session_epoch=session[1],
        topics=list(topics.values()),
    )


def fetch_by_id(talk: Talk) -> FetchRequest:
    ids = {"events": talk.topic_id("events")}
    return fetch(("events", 0, 0), ("unknown", 0, 0), ("events", 9, 0), ids=ids)


def fetch_in_session(talk: Talk) -> FetchRequest:
    """Go on in the session that the last reply opened."""
    return fetch(session=(talk.last.session_id, 1))


def fetch_in_session_with_wrong_epoch(talk: Talk) -> FetchRequest:
    return fetch(session=(talk.last.session_id, 7))


def fetch_forgetting(talk: Talk) -> FetchRequest:
    request = fetch(session=(talk.last.session_id, 1))
    request.forgotten_topics_data = [ForgottenTopic(topic="events", partitions=[0])]
    return request


def produce(
    *asked: tuple[str, int, bytes | None], acks: int = 1, transactional_id: str | None = None
) -> ProduceRequest:
    topics: dict[str, TopicProduceData] = {}
    for name, index, records in asked:
        topic = topics.setdefault(name, TopicProduceData(name=name, topic_id=UNKNOWN_ID))
        topic.partition_data.append(PartitionProduceData(index=index, records=records))
    return ProduceRequest(
        transactional_id=transactional_id, acks=acks, timeout_ms=10_000, topic_data=list(topics.values())
    )


def produce_to_one_topic_twice() -> ProduceRequest:
    data = [PartitionProduceData(index=0, records=GOOD)]
    return ProduceRequest(
        acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name="written", partition_data=data)] * 2
    )


def delete_records(*asked: Asked) -> DeleteRecordsRequest:
    topics: dict[str, DeleteRecordsTopic] = {}
    for name, index, offset in asked:
        wanted = DeleteRecordsPartition(partition_index=index, offset=offset)
        topics.setdefault(name, DeleteRecordsTopic(name=name)).partitions.append(wanted)
    return DeleteRecordsRequest(topics=list(topics.values()), timeout_ms=10_000)


def epochs(*asked: Asked, current: int = -1, replica: int = -1) -> OffsetForLeaderEpochRequest:
    topics: dict[str, OffsetForLeaderTopic] = {}
    for name, index, epoch in asked:
        wanted = OffsetForLeaderPartition(partition=index, current_leader_epoch=current, leader_epoch=epoch)
        topics.setdefault(name, OffsetForLeaderTopic(topic=name)).partitions.append(wanted)
    return OffsetForLeaderEpochRequest(replica_id=replica, topics=list(topics.values()))


def producers(*asked: tuple[str, list[int]]) -> DescribeProducersRequest:
    return DescribeProducersRequest(topics=[TopicRequest(name=name, partition_indexes=it) for name, it in asked])


def batch(*values: bytes | None, key: bytes | None = b"k", **options: object) -> bytes:
    records = [NewRecord(key, value, timestamp=TIME) for value in values]
    return bytes(build_batch(records, **options))  # type: ignore[arg-type]


def damaged(position: int, value: int) -> bytes:
    broken = bytearray(GOOD)
    broken[position] = value
    return bytes(broken)


GOOD = record("good")
_BATCHES: dict[str, bytes | None] = {
    "no records": b"",
    "a wrong checksum": damaged(len(GOOD) - 1, 0x7F),
    "magic 1": damaged(16, 1),
    "magic 0": damaged(16, 0),
    "magic 3": damaged(16, 3),
    "a cut batch": GOOD[:-1],
    "a cut header": GOOD[:20],
    "a cut length": GOOD[:8],
    "trailing bytes": GOOD + b"xyz",
    "two batches": GOOD + GOOD,
    "a control batch": batch(b"x", control=True),
    "a transactional batch": batch(b"x", transactional=True),
    "a sequence without a producer": batch(b"x", base_sequence=5),
    "an unknown producer with a late sequence": batch(b"x", producer_id=777_777, producer_epoch=0, base_sequence=5),
    "an unknown producer": batch(b"x", producer_id=777_778, producer_epoch=0, base_sequence=0),
    "a negative epoch": batch(b"x", producer_id=777_779, producer_epoch=-1, base_sequence=0),
    "a negative sequence": batch(b"x", producer_id=777_780, producer_epoch=0, base_sequence=-1),
    "gzip": batch(b"x", codec=Codec.GZIP),
    "a base offset": batch(b"x", base_offset=5),
    "a log append time": batch(b"x", log_append_time=5),
    "a time in the far future": bytes(build_batch([NewRecord(None, b"x", timestamp=9_999_999_999_999)])),
    "no time": bytes(build_batch([NewRecord(None, b"x", timestamp=-1)])),
    "a time before none": bytes(build_batch([NewRecord(None, b"x", timestamp=-5)])),
}


def _batches() -> Iterator[Case]:
    for what, records in _BATCHES.items():
        request = produce(("written", 0, records))
        yield from versions(f"Produce of {what}", (3, 8, 9, 12), request, ignored={"base_offset"})


CASES = (
    *versions("ListOffsets of the end", LIST, offsets(("events", 0, -1))),
    *versions("ListOffsets of the start", LIST, offsets(("events", 0, -2))),
    *versions("ListOffsets of the largest time", LIST, offsets(("events", 0, -3))),
    *versions("ListOffsets of the local start", LIST, offsets(("events", 0, -4))),
    *versions("ListOffsets of the tiered end", LIST, offsets(("events", 0, -5))),
    *versions("ListOffsets of the pending upload", LIST, offsets(("events", 0, -6))),
    *versions("ListOffsets of an unknown special time", LIST, offsets(("events", 0, -7))),
    *versions("ListOffsets of a time", (1, 5, 11), offsets(("events", 0, TIME + 1500))),
    *versions("ListOffsets of a late time", (1, 5, 11), offsets(("events", 0, TIME + 10_000_000))),
    *versions("ListOffsets of an early time", (1, 5, 11), offsets(("events", 0, 0))),
    *versions("ListOffsets of an empty partition", (1, 5, 11), offsets(("empty", 0, 0))),
    *versions("ListOffsets of the largest time of an empty partition", (7, 11), offsets(("empty", 0, -3))),
    *versions("ListOffsets of an unknown topic", LIST, offsets(("unknown", 0, -1))),
    *versions("ListOffsets of an empty name", (1, 5, 11), offsets(("", 0, -1))),
    *versions("ListOffsets of an unknown partition", (1, 5, 11), offsets(("events", 9, -1))),
    *versions("ListOffsets of a negative partition", (1, 5, 11), offsets(("events", -1, -1))),
    *versions(
        "ListOffsets of the same partition twice",
        LIST,
        offsets(("events", 0, -1), ("events", 0, -2)),
        unordered={"partitions"},
    ),
    *versions(
        "ListOffsets of the same topic twice",
        (1, 5, 11),
        offsets_of_two_topics("events"),
    ),
    *versions(
        "ListOffsets of an unknown partition twice",
        (1, 11),
        offsets(("unknown", 0, -1), ("unknown", 0, -1)),
    ),
    *versions(
        "ListOffsets of a partition twice and another",
        (1, 11),
        offsets(("events", 0, -1), ("events", 1, -1), ("events", 0, -1)),
        unordered={"partitions"},
    ),
    *versions("ListOffsets with an unknown isolation level", range(2, 12), offsets(("events", 0, -1), isolation=7)),
    *versions("ListOffsets with a negative isolation level", (2, 11), offsets(("events", 0, -1), isolation=-1)),
    *versions("ListOffsets of committed records", (2, 11), offsets(("open-transaction", 0, -1), isolation=1)),
    *versions("ListOffsets of uncommitted records", (2, 11), offsets(("open-transaction", 0, -1))),
    *versions("ListOffsets of the largest committed time", (7, 11), offsets(("open-transaction", 0, -3), isolation=1)),
    *versions("ListOffsets of a committed time", (7, 11), offsets(("open-transaction", 0, 1), isolation=1)),
    *versions("ListOffsets with the right epoch", (4, 11), offsets(("events", 0, -1), epoch=0)),
    *versions("ListOffsets with a newer epoch", (4, 11), offsets(("events", 0, -1), epoch=5)),
    *versions("ListOffsets with a negative epoch", (4, 11), offsets(("events", 0, -1), epoch=-2)),
    *versions("ListOffsets for a replica", (1, 11), offsets(("events", 0, -1), replica=5)),
    *versions("ListOffsets for a debugging client", (1, 11), offsets(("events", 0, -1), replica=-2)),
    *versions("ListOffsets of nothing", (1, 11), offsets()),
    *versions("Fetch", FETCH, fetch(("events", 0, 0))),
    *versions("Fetch from the middle", (4, 12), fetch(("events", 0, 3))),
    *versions("Fetch from the end", (4, 12), fetch(("events", 0, 5))),
    *versions("Fetch past the end", FETCH, fetch(("events", 0, 6))),
    *versions("Fetch from a negative offset", FETCH, fetch(("events", 0, -1))),
    *versions("Fetch from an unknown topic", FETCH, fetch(("unknown", 0, 0))),
    *versions("Fetch from an empty name", (4, 12), fetch(("", 0, 0))),
    *versions("Fetch from an unknown partition", FETCH, fetch(("events", 9, 0))),
    *versions("Fetch from a negative partition", (4, 12), fetch(("events", -1, 0))),
    *versions("Fetch from the same partition twice", (4, 7, 12), fetch(("events", 0, 0), ("events", 0, 3))),
    *versions("Fetch with an unknown isolation level", (4, 7, 12), fetch(("events", 0, 0), isolation=7)),
    *versions("Fetch with a negative isolation level", (4, 12), fetch(("events", 0, 0), isolation=-1)),
    *versions("Fetch of committed records", (4, 12), fetch(("open-transaction", 0, 0), isolation=1)),
    *versions("Fetch with a newer epoch", (9, 12), fetch(("events", 0, 0), epoch=5)),
    *versions("Fetch with a negative epoch", (9, 12), fetch(("events", 0, 0), epoch=-2)),
    case("Fetch after the right epoch", (12, fetch(("events", 0, 3), fetched_epoch=0))),
    case(
        "Fetch after a newer epoch",
        (12, fetch(("events", 0, 3), fetched_epoch=5)),
    ),
    case(
        "Fetch past the end after the right epoch",
        (12, fetch(("events", 0, 9), fetched_epoch=0)),
    ),
    case(
        "Fetch after a negative epoch",
        (12, fetch(("events", 0, 3), fetched_epoch=-2)),
    ),
    case(
        "Fetch from an empty partition after an epoch",
        (12, fetch(("empty", 0, 0), fetched_epoch=0)),
    ),
    *versions("Fetch of no bytes", (4, 12), fetch(("events", 0, 0), max_bytes=0)),
    *versions("Fetch of negative bytes", (4, 12), fetch(("events", 0, 0), max_bytes=-1)),
    *versions("Fetch of no bytes in all", (4, 12), fetch(("events", 0, 0), total=0)),
    *versions("Fetch of a byte", (4, 12), fetch(("events", 0, 0), max_bytes=1)),
    *versions("Fetch of negative bytes in all", (4, 12), fetch(("events", 0, 0), total=-1)),
    *versions("Fetch with a negative wait", (4, 12), fetch(("events", 0, 5), wait=-1, min_bytes=1)),
    *versions("Fetch of negative min bytes", (4, 12), fetch(("events", 0, 5), min_bytes=-1)),
    *versions("Fetch of nothing", (4, 12), fetch()),
    *versions("Fetch in an unknown session", (7, 12), fetch(("events", 0, 0), session=(12345, 1))),
    *versions("Fetch in session 0 with an epoch", (7, 12), fetch(("events", 0, 0), session=(0, 5))),
    *versions("Fetch with an epoch below none", (7, 12), fetch(("events", 0, 0), session=(0, -5))),
    *versions("Fetch by id", range(13, 19), fetch_by_id, unordered={"responses"}),
    *versions("Fetch by unknown id", range(13, 19), fetch(("unknown", 0, 0))),
    case(
        "Fetch in a session", (12, fetch(("events", 0, 0), ("unknown", 0, 0), session=(0, 0))), (12, fetch_in_session)
    ),
    case(
        "Fetch in a session with a wrong epoch",
        (12, fetch(("events", 0, 0), session=(0, 0))),
        (12, fetch_in_session_with_wrong_epoch),
    ),
    case("Fetch that forgets", (12, fetch(("events", 0, 0), ("empty", 0, 0), session=(0, 0))), (12, fetch_forgetting)),
    case("Fetch of an unknown replica", (12, fetch(("events", 0, 0), replica=9))),
    *versions("Produce to an unknown topic", PRODUCE, produce(("unknown", 0, GOOD))),
    *versions("Produce to an unknown id", (13,), produce(("unknown", 0, GOOD))),
    *versions("Produce to an empty name", (3, 9, 12), produce(("", 0, GOOD))),
    *versions("Produce to an unknown partition", (3, 9, 12), produce(("written", 9, GOOD))),
    *versions("Produce to a negative partition", (3, 9, 12), produce(("written", -1, GOOD))),
    *versions("Produce to nothing", (3, 9, 12, 13), produce()),
    *versions("Produce with unknown acks", PRODUCE, produce(("written", 0, GOOD), acks=2)),
    *versions("Produce with acks below all", (3, 9, 12), produce(("written", 0, GOOD), acks=-2)),
    *versions("Produce to an internal topic", (3, 9, 12), produce(("__consumer_offsets", 0, GOOD))),
    *versions("Produce to the same partition twice", (3, 9, 12), produce(("written", 0, GOOD), ("written", 0, GOOD))),
    *versions("Produce to the same topic twice", (3, 9, 12), produce_to_one_topic_twice()),
    *versions("Produce of a batch that is too large", (3, 8, 9, 12), produce(("small", 0, batch(b"x" * 300)))),
    *versions("Produce without a key to a compacted topic", (3, 7), produce(("compacted", 0, batch(b"x", key=None)))),
    *versions(
        "Produce without a key, with record errors",
        (8, 12),
        produce(("compacted", 0, batch(b"x", b"y", key=None))),
    ),
    *versions(
        "Produce with an unknown transactional id",
        (3, 9, 12),
        produce(("written", 0, GOOD), transactional_id="nope"),
        ignored={"base_offset"},
    ),
    *versions(
        "Produce with an empty transactional id",
        (3, 9, 12),
        produce(("written", 0, GOOD), transactional_id=""),
        ignored={"base_offset"},
    ),
    *_batches(),
    *versions("DeleteRecords before the start", range(3), delete_records(("cut", 0, 0))),
    *versions("DeleteRecords up to an offset", (0,), delete_records(("cut", 0, 1))),
    *versions("DeleteRecords up to a deleted offset", (0, 2), delete_records(("cut", 0, 0))),
    *versions("DeleteRecords past the end", range(3), delete_records(("cut", 0, 9))),
    *versions("DeleteRecords of all", (2,), delete_records(("cut", 0, -1))),
    *versions("DeleteRecords to a negative offset", range(3), delete_records(("cut", 0, -2))),
    *versions("DeleteRecords of an unknown topic", range(3), delete_records(("unknown", 0, 1))),
    *versions("DeleteRecords of an empty name", (0, 2), delete_records(("", 0, 1))),
    *versions("DeleteRecords of an unknown partition", (0, 2), delete_records(("cut", 9, 1))),
    *versions("DeleteRecords of a compacted topic", (0, 2), delete_records(("compacted", 0, -1))),
    *versions("DeleteRecords of an internal topic", (0, 2), delete_records(("__consumer_offsets", 0, 0))),
    *versions("DeleteRecords of the same partition twice", (0, 2), delete_records(("cut", 0, 2), ("cut", 0, 3))),
    *versions("DeleteRecords of nothing", (0, 2), delete_records()),
    *versions("OffsetForLeaderEpoch", range(2, 5), epochs(("events", 0, 0))),
    *versions("OffsetForLeaderEpoch of a newer epoch", range(2, 5), epochs(("events", 0, 5))),
    *versions("OffsetForLeaderEpoch of a negative epoch", range(2, 5), epochs(("events", 0, -1))),
    *versions("OffsetForLeaderEpoch of an empty partition", range(2, 5), epochs(("empty", 0, 0))),
    *versions("OffsetForLeaderEpoch of an unknown topic", range(2, 5), epochs(("unknown", 0, 0))),
    *versions("OffsetForLeaderEpoch of an unknown partition", range(2, 5), epochs(("events", 9, 0))),
    *versions("OffsetForLeaderEpoch with a newer current epoch", range(2, 5), epochs(("events", 0, 0), current=5)),
    *versions("OffsetForLeaderEpoch of the same twice", range(2, 5), epochs(("events", 0, 0), ("events", 0, 0))),
    *versions("OffsetForLeaderEpoch of nothing", range(2, 5), epochs()),
    case("DescribeProducers", (0, producers(("open-transaction", [0]), ("empty", [0])))),
    case("DescribeProducers of unknown partitions", (0, producers(("unknown", [0]), ("events", [9, -1])))),
    case("DescribeProducers of bad names", (0, producers(("", [0]), ("a b", [0])))),
    case("DescribeProducers of the same twice", (0, producers(("open-transaction", [0, 0])))),
    case(
        "DescribeProducers of the same topic twice",
        (0, producers(("open-transaction", [0]), ("open-transaction", [0]))),
    ),
    case("DescribeProducers of nothing", (0, producers())),
)
