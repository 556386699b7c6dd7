"""InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit, EndTxn, and what describes transactions."""

from collections.abc import Callable

from ottla.wire.api.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.api.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.api.describe_transactions import DescribeTransactionsRequest
from ottla.wire.api.end_txn import EndTxnRequest
from ottla.wire.api.init_producer_id import InitProducerIdRequest
from ottla.wire.api.list_transactions import ListTransactionsRequest
from ottla.wire.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.wire.api.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ottla.wire.schema import Request
from tests.compat.differential.case import Build, Talk, case, versions

Wanted = tuple[str, list[int]]
UNKNOWN_PRODUCER = (999_999, 0)
ADD, OFFSETS, END, COMMIT = range(4), range(5), range(6), range(6)


def init(
    transactional_id: str | None, timeout: int = 60_000, producer: tuple[int, int] = (-1, -1)
) -> InitProducerIdRequest:
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout,
        producer_id=producer[0],
        producer_epoch=producer[1],
    )


def add(
    transactional_id: str, *wanted: Wanted, producer: tuple[int, int] = UNKNOWN_PRODUCER, verify: bool = False
) -> AddPartitionsToTxnRequest:
    """In the fields of every version."""
    topics = [AddPartitionsToTxnTopic(name=name, partitions=partitions) for name, partitions in wanted]
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer[0],
        producer_epoch=producer[1],
        verify_only=verify,
        topics=topics,
    )
    return AddPartitionsToTxnRequest(
        transactions=[transaction],
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=topics,
    )


def add_offsets(
    transactional_id: str, group: str = "in-transaction", producer: tuple[int, int] = UNKNOWN_PRODUCER
) -> AddOffsetsToTxnRequest:
    return AddOffsetsToTxnRequest(
        transactional_id=transactional_id, producer_id=producer[0], producer_epoch=producer[1], group_id=group
    )


def end(
    transactional_id: str, producer: tuple[int, int] = UNKNOWN_PRODUCER, *, committed: bool = True
) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id=transactional_id, producer_id=producer[0], producer_epoch=producer[1], committed=committed
    )


def commit(
    transactional_id: str,
    *wanted: Wanted,
    group: str = "in-transaction",
    producer: tuple[int, int] = UNKNOWN_PRODUCER,
    generation: int = -1,
    member: str = "",
    metadata: str | None = "m",
) -> TxnOffsetCommitRequest:
    topics = [
        TxnOffsetCommitRequestTopic(
            name=name,
            partitions=[
                TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=1, committed_metadata=metadata)
                for index in partitions
            ],
        )
        for name, partitions in wanted
    ]
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group,
        producer_id=producer[0],
        producer_epoch=producer[1],
        generation_id=generation,
        member_id=member,
        topics=topics,
    )


def as_producer(make: Callable[[tuple[int, int]], Request], epoch_change: int = 0) -> Build:
    """A request of the producer that the first reply of the case started."""

    def build(talk: Talk) -> Request:
        started = talk.replies[0]
        return make((started.producer_id, started.producer_epoch + epoch_change))

    return build


def markers(*wanted: Wanted, coordinator_epoch: int = 0) -> WriteTxnMarkersRequest:
    marker = WritableTxnMarker(
        producer_id=888_888,
        producer_epoch=0,
        transaction_result=True,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=partitions) for name, partitions in wanted],
        coordinator_epoch=coordinator_epoch,
    )
    return WriteTxnMarkersRequest(markers=[marker])


_EVENTS = ("events", [1])

CASES = (
    *versions("InitProducerId without a transaction", range(6), init(None)),
    *versions("InitProducerId with an empty transactional id", range(6), init("")),
    *versions("InitProducerId without a timeout", range(6), init("timeouts", 0)),
    *versions("InitProducerId with a negative timeout", (0, 5), init("timeouts", -1)),
    *versions("InitProducerId with a long timeout", range(6), init("timeouts", 900_001)),
    *versions("InitProducerId with an unknown producer", range(3, 6), init("nobody", producer=(777, 3))),
    *versions("InitProducerId with a producer id only", (3, 5), init("nobody", producer=(777, -1))),
    *versions("InitProducerId with an epoch only", (3, 5), init("nobody", producer=(-1, 3))),
    *versions("InitProducerId with a producer and no transaction", (3, 5), init(None, producer=(777, 3))),
    case(
        "InitProducerId twice",
        (4, init("twice")),
        (4, as_producer(lambda it: init("twice", producer=it))),
        (4, as_producer(lambda it: init("twice", producer=it), 5)),
    ),
    *versions("AddPartitionsToTxn of an unknown id", ADD, add("nobody", _EVENTS)),
    *versions("AddPartitionsToTxn of an empty id", ADD, add("", _EVENTS)),
    *versions(
        "AddPartitionsToTxn of an unknown topic",
        ADD,
        add("nobody", ("unknown", [0]), _EVENTS),
        unordered={"results_by_topic_v3_and_below"},
    ),
    *versions("AddPartitionsToTxn of nothing", ADD, add("nobody")),
    *versions("AddPartitionsToTxn of a broker", (4, 5), add("nobody", _EVENTS)),
    *versions("AddPartitionsToTxn of a broker verifies", (4, 5), add("nobody", _EVENTS, verify=True)),
    *versions("AddOffsetsToTxn of an unknown id", OFFSETS, add_offsets("nobody")),
    *versions("AddOffsetsToTxn of an empty id", OFFSETS, add_offsets("")),
    *versions("AddOffsetsToTxn of an empty group", OFFSETS, add_offsets("nobody", "")),
    *versions("EndTxn of an unknown id", END, end("nobody")),
    *versions("EndTxn of an empty id", END, end("")),
    *versions("TxnOffsetCommit of an unknown id", COMMIT, commit("nobody", _EVENTS)),
    *versions("TxnOffsetCommit of an empty id", COMMIT, commit("", _EVENTS)),
    *versions("TxnOffsetCommit of an empty group", COMMIT, commit("nobody", _EVENTS, group="")),
    *versions("TxnOffsetCommit of unknown partitions", COMMIT, commit("nobody", ("unknown", [0]), ("events", [9]))),
    *versions(
        "TxnOffsetCommit of an unknown member",
        (3, 4),
        commit("nobody", _EVENTS, group="known", generation=3, member="x"),
    ),
    *versions("TxnOffsetCommit of nothing", (0, 3, 5), commit("nobody")),
    case(
        "EndTxn before anything",
        (4, init("nothing")),
        (3, as_producer(lambda it: end("nothing", it))),
        (5, as_producer(lambda it: end("nothing", it, committed=False))),
    ),
    case(
        "A fenced producer",
        (4, init("fenced")),
        (4, init("fenced")),
        (3, as_producer(lambda it: add("fenced", _EVENTS, producer=it))),
        (1, as_producer(lambda it: end("fenced", it))),
        (3, as_producer(lambda it: end("fenced", it))),
        (3, as_producer(lambda it: add_offsets("fenced", producer=it))),
    ),
    case(
        "A producer from the future",
        (4, init("future")),
        (3, as_producer(lambda it: add("future", _EVENTS, producer=it), 3)),
        (3, as_producer(lambda it: end("future", it), 3)),
    ),
    case(
        "A transaction",
        (4, init("whole")),
        (3, as_producer(lambda it: add("whole", _EVENTS, ("unknown", [0]), producer=it))),
        (3, as_producer(lambda it: add("whole", _EVENTS, producer=it))),
        (3, as_producer(lambda it: add_offsets("whole", producer=it))),
        (3, as_producer(lambda it: commit("whole", _EVENTS, producer=it))),
        (0, DescribeTransactionsRequest(transactional_ids=["whole"])),
        (3, as_producer(lambda it: end("whole", it))),
        unordered={"topics"},
    ),
    case(
        "TxnOffsetCommit with errors",
        (4, init("errors")),
        (3, as_producer(lambda it: add_offsets("errors", producer=it))),
        (3, as_producer(lambda it: commit("errors", ("events", [9, 0, 7]), ("unknown", [0]), producer=it))),
        (3, as_producer(lambda it: end("errors", it, committed=False))),
    ),
    case("DescribeTransactions", (0, DescribeTransactionsRequest(transactional_ids=["open"]))),
    case("DescribeTransactions of an unknown id", (0, DescribeTransactionsRequest(transactional_ids=["nobody"]))),
    case("DescribeTransactions of an empty id", (0, DescribeTransactionsRequest(transactional_ids=[""]))),
    case(
        "DescribeTransactions of the same twice",
        (0, DescribeTransactionsRequest(transactional_ids=["open", "open"])),
    ),
    case("DescribeTransactions of nothing", (0, DescribeTransactionsRequest())),
    *versions("ListTransactions in a state", range(3), ListTransactionsRequest(state_filters=["Ongoing"])),
    *versions(
        "ListTransactions in an unknown state", range(3), ListTransactionsRequest(state_filters=["Nope", "Dead"])
    ),
    *versions("ListTransactions of an unknown producer", range(3), ListTransactionsRequest(producer_id_filters=[777])),
    *versions(
        "ListTransactions of a duration",
        (1, 2),
        ListTransactionsRequest(duration_filter=3_600_000),
        unordered={"transaction_states"},
    ),
    case("ListTransactions of a pattern", (2, ListTransactionsRequest(transactional_id_pattern="op.*"))),
    case(
        "ListTransactions of an empty pattern",
        (2, ListTransactionsRequest(transactional_id_pattern="", state_filters=["Ongoing"])),
    ),
    case("ListTransactions of a bad pattern", (2, ListTransactionsRequest(transactional_id_pattern="("))),
    *versions(
        "WriteTxnMarkers of unknown partitions",
        (1, 2),
        markers(("unknown", [0]), ("events", [9])),
        unordered={"topics"},
    ),
    *versions("WriteTxnMarkers of nothing", (1, 2), markers()),
    *versions("WriteTxnMarkers of no marker", (1, 2), WriteTxnMarkersRequest()),
)
