"""Replies to random requests can be decoded, and damaged batches are stored or rejected.

tests/hostile sends many more requests, also damaged ones, and checks other clients. Regressions that random requests
have found are at the end, by name.

`OTTLA_FUZZ_EXAMPLES=200` makes every test try that many examples of each message.
"""

import asyncio
import logging
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader

import ottla
from ottla.errors import ErrorCode
from ottla.handlers.registry import HANDLERS
from ottla.model import TopicId
from ottla.records.builder import seal
from ottla.records.format import HEADER_SIZE, Codec
from ottla.wire import codec
from ottla.wire.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.api.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.api.produce import ProduceResponse
from ottla.wire.framing import parse_response_header
from ottla.wire.schema import Api, Request
from tests.records.samples import three_records, with_payload
from tests.server.test_inspection import ManualThreads
from tests.server.wire_client import (
    PRODUCE_VERSION,
    WireClient,
    batch,
    create_topic,
    encode_request,
    fetch,
    produce,
    produce_request,
)
from tests.server.worlds import Running, running, settle
from tests.wire.messages import Overrides, structs
from tests.wire.test_kio import kio_class

SERVED = [served.api for served in HANDLERS.values()]

EXAMPLES = int(os.environ.get("OTTLA_FUZZ_EXAMPLES", "0"))

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1",
}

GOOD = batch(b"one", b"two")

names = st.sampled_from(["clicks", "clicks", "other", "__consumer_offsets", "..", "a/b", "x\0y", "", "é" * 200])
records = st.sampled_from([None, b"", GOOD, GOOD + GOOD, GOOD[:70], bytes(len(GOOD)), GOOD[:-1] + b"\1"])
groups = st.sampled_from(["g", "h", "", "é/\0"])
short_times = st.integers(-1, 20)

PLAUSIBLE: Overrides = (
    ("name", names),
    ("topic", names),
    ("topic_name", names),
    ("topic_names", st.lists(names, max_size=2)),
    ("records", records),
    ("group_id", groups),
    ("key", groups),
    ("groups_names", st.lists(groups, max_size=2)),
    ("partition", st.integers(-1, 3)),
    ("partition_index", st.integers(-1, 3)),
    ("index", st.integers(-1, 3)),
    ("num_partitions", st.integers(-2, 3)),
    ("count", st.integers(-2, 5)),
    ("replication_factor", st.integers(-2, 2)),
    ("resource_type", st.sampled_from([0, 2, 4, 8, 16, 32, 99])),
    ("resource_name", st.sampled_from(["clicks", "1", "", "g", "other"])),
    ("acks", st.sampled_from([1, -1, 5])),
    ("session_epoch", st.integers(-1, 2)),
)
"""Values that pass the first checks."""

WITHIN_LIMITS: Overrides = (
    ("max_wait_ms", short_times),
    ("session_timeout_ms", short_times),
    ("rebalance_timeout_ms", short_times),
    ("acks", st.sampled_from([1, -1, 5, 32767])),
    ("num_partitions", st.integers(-(2**31), 3)),
    ("count", st.integers(-(2**31), 5)),
)
"""Values that let replies come soon. acks=0 is left out, because it gets no reply."""


class Mistakes(logging.Handler):
    """All errors in the log. A working broker logs none, whatever requests it gets.

    The exception is the log package, which reports damaged records that were stored without being opened.
    """

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []
        self.setFormatter(logging.Formatter("%(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        if record.name != "ottla.log":
            self.lines.append(self.format(record))


@contextmanager
def no_mistakes() -> Iterator[Mistakes]:
    mistakes = Mistakes()
    loggers = [logging.getLogger("ottla"), logging.getLogger("asyncio")]
    for logger in loggers:
        logger.addHandler(mistakes)
    try:
        yield mistakes
    finally:
        for logger in loggers:
            logger.removeHandler(mistakes)


def fuzz(default: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return settings(
        max_examples=EXAMPLES or default,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


def requests_of(api: Api, version: int) -> st.SearchStrategy[Request]:
    anything: st.SearchStrategy[Request] = structs(api.request, version, WITHIN_LIMITS)
    plausible: st.SearchStrategy[Request] = structs(api.request, version, WITHIN_LIMITS + PLAUSIBLE)
    return anything | plausible


def api_name(api: Api) -> str:
    return api.name


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A broker on a socket, without errors in its log at the end."""
    with no_mistakes() as mistakes, ottla.embedded(SETTINGS) as broker:
        create_topic(broker.bootstrap_servers, "clicks", partitions=2)
        with WireClient(broker.bootstrap_servers) as client:
            produce(client, "clicks", GOOD)
        yield broker.bootstrap_servers
    assert mistakes.lines == []


@pytest.mark.parametrize("api", SERVED, ids=api_name)
def test_every_request_gets_a_reply_that_can_be_read(api: Api, bootstrap: str) -> None:
    """Any request that can be encoded, in every version. kio decodes the reply as well."""
    for version in range(api.min_version, api.max_version + 1):
        check_replies(api, version, bootstrap)


def check_replies(api: Api, version: int, bootstrap: str) -> None:
    kio_reader = entity_reader(kio_class(api.response, version))

    @fuzz(default=6)
    @given(requests_of(api, version))
    def check(request: Request) -> None:
        with WireClient(bootstrap) as client:
            client.send(request, version)
            reply = client.receive_frame()
        body = parse_response_header(api.key, version, reply).body_position
        _, end = codec.decode(api.response, reply, version, body)
        assert end == len(reply)
        _, size = kio_reader(bytes(reply), body)
        assert body + size == len(reply)

    check()


Attack = Callable[[bytes], bytes]
"""Send bytes to the broker on a new connection, and return the reply."""

TOPICS = {
    "clicks": {},
    "compacted": {"cleanup.policy": "compact"},
    "recompressed": {"compression.type": "zstd"},
    "unpacked": {"compression.type": "uncompressed"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
}
"""Topics whose settings make the broker open batches, or not."""


@pytest.fixture(scope="module")
def attack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attack]:
    """After each attack another client is served, and the broker has logged no error."""
    with asyncio.Runner() as runner, no_mistakes() as mistakes:
        stack = AsyncExitStack()
        directory = tmp_path_factory.mktemp("fuzz")
        # Batches are opened at once, so that the reply is there when the event loop is idle.
        threads = ManualThreads()
        world = runner.run(
            stack.enter_async_context(running(directory, SETTINGS, inspections=threads, lookups=threads))
        )
        for name, overrides in TOPICS.items():
            runner.run(world.broker.metadata.create_topic(name, partitions=2, overrides=overrides))
        runner.run(world.broker.metadata.create_offsets_topic())

        def attack(data: bytes) -> bytes:
            answer = runner.run(attack_and_look(world, data))
            assert mistakes.lines == []
            return answer

        yield attack
        runner.run(stack.aclose())
        assert mistakes.lines == []


async def attack_and_look(world: Running, data: bytes) -> bytes:
    hostile = world.connect()
    hostile.push(data)
    await settle()
    hostile.close()
    reply = await world.call(ApiVersionsRequest(), 0, ApiVersionsResponse)
    assert reply.error_code == ErrorCode.NONE
    return bytes(hostile.taken)


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """The bytes after one to four faults: a bit flip, a cut, or bytes that are removed, inserted or overwritten."""
    out = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(out) - 1)))
        match draw(st.integers(0, 4)):
            case 0 if out:
                out[at] ^= 1 << draw(st.integers(0, 7))
            case 1:
                del out[at:]
            case 2:
                del out[at : at + draw(st.integers(1, 8))]
            case 3:
                out[at:at] = draw(st.binary(min_size=1, max_size=8))
            case _:
                value = draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF]))
                out[at : at + 4] = struct.pack(">I", value)
    return bytes(out)


@st.composite
def damaged_batches(draw: st.DrawFn) -> bytes:
    """Batches with a correct checksum and wrong content: damage in the header or in the compressed data."""
    whole = three_records(draw(st.sampled_from(Codec)))
    if draw(st.booleans()):
        return bytes(with_payload(whole, draw(damaged(bytes(whole[HEADER_SIZE:])))))
    at = draw(st.integers(21, HEADER_SIZE - 1))
    whole[at] = draw(st.integers(0, 255))
    seal(whole)
    return bytes(whole)


REFUSALS = {
    ErrorCode.NONE,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.INVALID_RECORD,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


@pytest.mark.parametrize("topic", TOPICS)
def test_damaged_records_are_stored_or_refused(topic: str, attack: Attack) -> None:
    """Stored damaged batches do not prevent lookups by timestamp, which open them."""
    questions = [
        ListOffsetsRequest(
            topics=[
                ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)])
            ]
        )
        for timestamp in (-3, 0, 1005, 2**45)
    ]

    @fuzz(default=60)
    @given(damaged_batches())
    def check(records: bytes) -> None:
        answer = attack(encode_request(produce_request(topic, records), PRODUCE_VERSION, 0))
        reply, end = codec.decode(ProduceResponse, answer, PRODUCE_VERSION, 8)
        assert end == len(answer)
        assert ErrorCode(reply.responses[0].partition_responses[0].error_code) in REFUSALS
        for question in questions:
            answer = attack(encode_request(question, 7, 0))
            offsets, _ = codec.decode(ListOffsetsResponse, answer, 7, 9)
            codes = {ErrorCode(partition.error_code) for partition in offsets.topics[0].partitions}
            assert codes <= {ErrorCode.NONE, ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD}

    check()


NOT_YET = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)


def commit(client: WireClient, group: str, topic: str, version: int, retention_time_ms: int = -1) -> int:
    """Commit an offset like a consumer without group membership, as soon as the group has a coordinator."""
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="")
    wanted = OffsetCommitRequestTopic(name=topic, partitions=[partition])
    request = OffsetCommitRequest(group_id=group, retention_time_ms=retention_time_ms, topics=[wanted])
    while True:
        client.call(FindCoordinatorRequest(key=group), 1, FindCoordinatorResponse)
        reply = client.call(request, version, OffsetCommitResponse)
        if (code := reply.topics[0].partitions[0].error_code) not in NOT_YET:
            return code


class TestFound:
    """Regressions that random requests have found."""

    @pytest.mark.parametrize("version", [10, 11])
    def test_metadata_by_id_before_its_reply_could_leave_the_name_out(self, version: int, bootstrap: str) -> None:
        """The reply could not be encoded, and the client waited for ever. Kafka rejects the request too."""
        by_id = MetadataRequestTopic(topic_id=TopicId(b"i" * 16), name=None)
        by_name = MetadataRequestTopic(name="clicks")
        with WireClient(bootstrap) as client:
            reply = client.call(MetadataRequest(topics=[by_id, by_name]), version, MetadataResponse)
        assert [(topic.name, topic.error_code) for topic in reply.topics] == [
            ("", ErrorCode.INVALID_REQUEST),
            ("clicks", ErrorCode.INVALID_REQUEST),
        ]

    def test_a_batch_that_holds_no_records_inside_does_not_stop_lookups_by_time(self, bootstrap: str) -> None:
        """Ottla stores compressed records without opening them, so a lookup by timestamp may be the first to open
        them."""
        create_topic(bootstrap, "unopened")
        poison = bytes(with_payload(three_records(Codec.GZIP), b"not gzip"))
        lookup = ListOffsetsPartition(partition_index=0, timestamp=1000)
        with WireClient(bootstrap) as client:
            assert produce(client, "unopened", poison).error_code == ErrorCode.NONE
            request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="unopened", partitions=[lookup])])
            reply = client.call(request, 7, ListOffsetsResponse)
            assert reply.topics[0].partitions[0].error_code == ErrorCode.CORRUPT_MESSAGE
            assert fetch(client, "unopened")[HEADER_SIZE:] == b"not gzip"

    @pytest.mark.parametrize("version", [2, 3, 4])
    def test_an_offset_that_is_kept_for_ever(self, version: int, bootstrap: str) -> None:
        """The expiry time did not fit into a record, and then the partition served no group any more."""
        topic = f"kept-{version}"
        create_topic(bootstrap, topic)
        with WireClient(bootstrap) as client, WireClient(bootstrap) as bystander:
            assert commit(bystander, "bystander", topic, 6) == ErrorCode.NONE
            assert commit(client, topic, topic, version, retention_time_ms=2**63 - 1) == ErrorCode.NONE
            assert commit(bystander, "bystander", topic, 6) == ErrorCode.NONE
