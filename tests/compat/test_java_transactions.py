"""Apache Kafka's own tools around transactions. Every call starts a JVM, so each test does much with few calls."""

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from tests.compat import batches, test_java, transaction_requests
from tests.compat.confluent_client import Record, produce
from tests.compat.conftest import MakeTopic
from tests.compat.deadlines import eventually
from tests.compat.hanging_transactions import hang
from tests.compat.test_java import CONSOLE_CONSUMER, JARS, Tool
from tests.compat.transaction_requests import Place, Producer
from tests.compat.transactional_clients import READ_COMMITTED, READ_UNCOMMITTED, ConfluentProducer, read_confluent
from tests.compat.wire import Connection, connect

pytestmark = test_java.pytestmark
tool = test_java.tool

TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"
DUMP = "org.apache.kafka.tools.DumpLogSegments"


@pytest.fixture
def connection(bootstrap: str) -> Iterator[Connection]:
    with connect(bootstrap) as each:
        transaction_requests.prepare(each)
        yield each


@pytest.fixture
def transactional_id(unique: Callable[[], str]) -> str:
    return unique()


def table(output: str) -> list[dict[str, str]]:
    header, *rows = [[cell.strip() for cell in line.split("\t")] for line in output.splitlines()]
    return [dict(zip(header, row, strict=True)) for row in rows]


def begin(connection: Connection, transactional_id: str, place: Place) -> Producer:
    """An open transaction with one record."""
    reply = transaction_requests.init(connection, transactional_id)
    producer = Producer(reply.producer_id, reply.producer_epoch)
    batch = batches.pack(
        [b"open"],
        timestamps=[int(time.time() * 1000)],
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        sequence=0,
        attributes=batches.TRANSACTIONAL,
    )
    [answer] = transaction_requests.produce(connection, transactional_id, {place: batch}, version=12).values()
    assert answer.error_code is ErrorCode.none
    return producer


def test_a_hanging_transaction_is_found_and_aborted(
    tool: Tool, connection: Connection, make_topic: MakeTopic, transactional_id: str
) -> None:
    """One partition hangs; the other has a transaction that its coordinator knows, and is left alone."""
    hanging, healthy = Place(make_topic(), 0), Place(make_topic(), 0)
    an_hour_ago = int(time.time() * 1000) - 3_600_000
    producer = hang(connection, transactional_id, hanging, an_hour_ago)
    begin(connection, transactional_id + "-healthy", healthy)
    [found] = table(tool(TRANSACTIONS, "find-hanging", "--topic", hanging.topic, "--max-transaction-timeout", "1"))
    assert (found["Topic"], found["Partition"], found["StartOffset"]) == (hanging.topic, "0", "0")
    assert (found["ProducerId"], found["ProducerEpoch"]) == (str(producer.producer_id), str(producer.epoch))
    assert (found["LastTimestamp"], found["Duration(min)"]) == (str(an_hour_ago), "60")
    assert transaction_requests.fetch(connection, hanging).last_stable_offset == 0
    tool(TRANSACTIONS, "abort", "--topic", hanging.topic, "--partition", "0", "--start-offset", "0")
    answer = transaction_requests.fetch(connection, hanging)
    assert (answer.last_stable_offset, len(answer.aborted_transactions)) == (2, 1)
    assert table(tool(TRANSACTIONS, "find-hanging", "--topic", healthy.topic, "--max-transaction-timeout", "0")) == []


def test_transactions_are_listed_described_and_terminated(
    tool: Tool, connection: Connection, make_topic: MakeTopic, transactional_id: str
) -> None:
    place = Place(make_topic(partitions=2), 1)
    producer = begin(connection, transactional_id, place)
    [listed] = table(tool(TRANSACTIONS, "list", "--transactional-id-pattern", f"{transactional_id}.*"))
    assert (listed["TransactionalId"], listed["TransactionState"]) == (transactional_id, "Ongoing")
    assert listed["ProducerId"] == str(producer.producer_id)
    [described] = table(tool(TRANSACTIONS, "describe", "--transactional-id", transactional_id))
    assert described["CoordinatorId"] == listed["Coordinator"]
    assert described["TopicPartitions"] == f"{place.topic}-1"
    assert (described["TransactionState"], described["TransactionTimeoutMs"]) == ("Ongoing", "60000")
    assert 0 <= int(described["TransactionDurationMs"]) < 60_000
    [open_one] = table(tool(TRANSACTIONS, "describe-producers", "--topic", place.topic, "--partition", "1"))
    assert (open_one["ProducerId"], open_one["CurrentTransactionStartOffset"]) == (str(producer.producer_id), "0")
    assert (open_one["LatestCoordinatorEpoch"], open_one["LastSequence"]) == ("-1", "0")
    tool(TRANSACTIONS, "forceTerminateTransaction", "--transactionalId", transactional_id)
    eventually(lambda: transaction_requests.fetch(connection, place).last_stable_offset == 2)


@pytest.mark.parametrize(
    ("isolation", "seen"), [(READ_COMMITTED, ["first", "third"]), (READ_UNCOMMITTED, ["first", "second", "third"])]
)
def test_console_consumer(
    tool: Tool, bootstrap: str, topic: str, transactional_id: str, isolation: str, seen: list[str]
) -> None:
    with closing(ConfluentProducer(bootstrap, transactional_id)) as producer:
        for value, end in ((b"first", producer.commit), (b"second", producer.abort), (b"third", producer.commit)):
            producer.begin()
            producer.send(topic, value)
            end()
    limit = ("--max-messages", str(len(seen)), "--timeout-ms", "10000")
    output = tool(CONSOLE_CONSUMER, "--topic", topic, "--from-beginning", "--isolation-level", isolation, *limit)
    assert output.split() == seen


def test_the_copier_copies_exactly_once(
    bootstrap: str, make_topic: MakeTopic, group: str, transactional_id: str
) -> None:
    """Records and offsets are committed together; about a third of the transactions is aborted and done again."""
    source, target = make_topic(), make_topic()
    produce(bootstrap, source, [Record(str(n).encode(), partition=0) for n in range(100)])
    java = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{JARS}/*", COPIER]
    copy = ["--input-topic", source, "--input-partition", "0", "--output-topic", target, "--consumer-group", group]
    transactions = ["--transactional-id", transactional_id, "--transaction-size", "10", "--enable-random-aborts"]
    command = [*java, "--broker-list", bootstrap, *copy, *transactions, "--group-mode", "--use-group-metadata"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    last = json.loads(done.stdout.splitlines()[-1])
    assert (last["stage"], last["remaining"], last["consumed"]) == ("ShutdownComplete", 0, 100)
    assert [int(value) for value in read_confluent(bootstrap, target, READ_COMMITTED).values] == list(range(100))


def test_performance_tool_with_transactions(tool: Tool, bootstrap: str, topic: str, transactional_id: str) -> None:
    load = ("--topic", topic, "--num-records", "5000", "--record-size", "100", "--throughput", "-1")
    transactions = ("--transactional-id", transactional_id, "--transaction-duration-ms", "20")
    output = tool("org.apache.kafka.tools.ProducerPerformance", *load, *transactions)
    assert "5000 records sent" in output
    assert len(read_confluent(bootstrap, topic, READ_COMMITTED).values) == 5000


def log_directory(connection: Connection, place: Place) -> Path:
    """The broker says where it keeps its logs, and it runs on this machine."""
    reply = connection.call("describe_log_dirs", 1, topics=[{"topic": place.topic, "partitions": [place.partition]}])
    [directory] = [Path(each.log_dir) for each in reply.results if each.topics]
    return directory / f"{place.topic}-{place.partition}"


def test_the_dump_tool_reads_markers_and_aborted_transactions(
    connection: Connection, topic: str, transactional_id: str
) -> None:
    place = Place(topic, 0)
    producer = begin(connection, transactional_id, place)
    ended = transaction_requests.end(connection, transactional_id, producer, committed=False)
    assert ended.error_code is ErrorCode.none
    transaction_requests.settle(connection, transactional_id)
    segment = log_directory(connection, place) / "00000000000000000000"
    output = dump("--print-data-log", "--files", f"{segment}.log,{segment}.txnindex")
    assert f"producerId: {producer.producer_id} producerEpoch: 0" in output
    assert "isTransactional: true isControl: true" in output
    assert re.search(r"offset: 1 .* endTxnMarker: ABORT coordinatorEpoch: 0", output)
    index_entry = f"producerId: {producer.producer_id} firstOffset: 0 lastOffset: 1 lastStableOffset: 2"
    assert f"version: 0 {index_entry}" in output


def test_the_dump_tool_reads_the_transaction_log(connection: Connection, topic: str, transactional_id: str) -> None:
    place = Place(topic, 0)
    producer = begin(connection, transactional_id, place)
    transaction_requests.end(connection, transactional_id, producer, committed=True)
    transaction_requests.settle(connection, transactional_id)
    partition = java_hash(transactional_id) % 50
    segment = log_directory(connection, Place("__transaction_state", partition)) / "00000000000000000000.log"
    told = [
        json.loads(line.partition(" payload: ")[2])["data"]
        for line in dump("--transaction-log-decoder", "--files", str(segment)).splitlines()
        if f'"transactionalId":"{transactional_id}"' in line
    ]
    assert [each["transactionStatus"] for each in told] == [0, 1, 2, 4]
    assert [each["producerEpoch"] for each in told] == [0, 0, 1, 1]
    assert {each["producerId"] for each in told} == {producer.producer_id}
    assert [each["transactionPartitions"] for each in told[1:3]] == [[{"topic": topic, "partitionIds": [0]}]] * 2


def dump(*arguments: str) -> str:
    java = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{JARS}/*", DUMP]
    done = subprocess.run([*java, *arguments], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def java_hash(text: str) -> int:
    """The size of String.hashCode, which chooses the partition that has a transactional id."""
    code = 0
    for character in text:
        code = (31 * code + ord(character)) & 0xFFFFFFFF
    return min(code, 2**32 - code)
