"""A broker that is killed or stopped while transactions are open, ended or out of time, and comes back."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from kio.schema.errors import ErrorCode

from tests.compat import batches, topics, transaction_requests, transaction_script
from tests.compat.conftest import EXTERNAL_BROKER, HASTY
from tests.compat.deadlines import eventually
from tests.compat.processes import BrokerProcess
from tests.compat.transaction_requests import Place, Producer
from tests.compat.transactional_clients import READ_COMMITTED, ConfluentProducer, Log, read_confluent
from tests.compat.wire import Connection, connect

TOPIC, GROUP, TRANSACTIONAL_ID = "survivor", "survivors", "copier"
PLACE = Place(TOPIC, 0)
Interruption = Callable[[BrokerProcess], None]


def kill_and_start(process: BrokerProcess) -> None:
    process.kill()
    process.start()


@pytest.fixture
def process(tmp_path: Path) -> Iterator[BrokerProcess]:
    if EXTERNAL_BROKER:
        pytest.skip("only a broker this suite starts itself can be killed")
    broker = BrokerProcess(tmp_path / "data", HASTY)
    broker.start()
    yield broker
    broker.kill()
    print(broker.log())


def create_topic(process: BrokerProcess, partitions: int = 1) -> None:
    topics.create(AdminClient({"bootstrap.servers": process.bootstrap_servers}), TOPIC, partitions)


def begin(connection: Connection, partitions: int = 1, timeout_ms: int = 60_000) -> Producer:
    """A transaction with a record in each partition and an offset."""
    transaction_requests.prepare(connection)
    reply = transaction_requests.init(connection, TRANSACTIONAL_ID, timeout_ms=timeout_ms)
    producer = Producer(reply.producer_id, reply.producer_epoch)
    send(connection, producer, 0, partitions)
    answers = transaction_requests.commit_offsets(connection, TRANSACTIONAL_ID, producer, GROUP, {PLACE: 7})
    assert answers == {PLACE: ErrorCode.none}
    return producer


def send(connection: Connection, producer: Producer, sequence: int, partitions: int = 1) -> None:
    records = {Place(TOPIC, n): transaction_script.batch(producer, sequence) for n in range(partitions)}
    answers = transaction_requests.produce(connection, TRANSACTIONAL_ID, records, version=12)
    assert {each.error_code for each in answers.values()} == {ErrorCode.none}


def offset(connection: Connection) -> tuple[ErrorCode, int]:
    answer = transaction_requests.committed(connection, GROUP, PLACE, stable=True)
    return answer.error_code, answer.committed_offset


def aborted(answer: Any) -> list[int]:
    return [each.first_offset for each in answer.aborted_transactions]


@pytest.mark.parametrize(
    ("interrupt", "committed"),
    [(kill_and_start, True), (kill_and_start, False), (BrokerProcess.restart, True)],
    ids=["killed-commit", "killed-abort", "stopped-commit"],
)
def test_an_open_transaction_is_still_open(process: BrokerProcess, interrupt: Interruption, committed: bool) -> None:
    create_topic(process)
    with connect(process.bootstrap_servers) as connection:
        producer = begin(connection)
    interrupt(process)
    with connect(process.bootstrap_servers) as connection:
        transaction_requests.prepare(connection)
        before = transaction_requests.fetch(connection, PLACE)
        assert (before.high_watermark, before.last_stable_offset, before.records or b"") == (1, 0, b"")
        assert offset(connection) == (ErrorCode.unstable_offset_commit, -1)
        send(connection, producer, 1)
        ended = transaction_requests.end(connection, TRANSACTIONAL_ID, producer, committed=committed)
        assert (ended.error_code, ended.producer_epoch) == (ErrorCode.none, 1)
        transaction_requests.settle(connection, TRANSACTIONAL_ID)
        after = transaction_requests.fetch(connection, PLACE)
        assert (after.last_stable_offset, aborted(after)) == (3, [] if committed else [0])
        assert offset(connection) == (ErrorCode.none, 7 if committed else -1)


def test_what_was_aborted_stays_aborted(process: BrokerProcess) -> None:
    create_topic(process)
    with connect(process.bootstrap_servers) as connection:
        producer = begin(connection)
        transaction_requests.end(connection, TRANSACTIONAL_ID, producer, committed=False)
        transaction_requests.settle(connection, TRANSACTIONAL_ID)
    kill_and_start(process)
    with connect(process.bootstrap_servers) as connection:
        answer = transaction_requests.fetch(connection, PLACE)
        assert (answer.high_watermark, answer.last_stable_offset, aborted(answer)) == (2, 2, [0])
        transaction_requests.prepare(connection)
        late = transaction_requests.produce(
            connection, TRANSACTIONAL_ID, {PLACE: transaction_script.batch(producer, 1)}, version=12
        )
        assert late[PLACE].error_code is ErrorCode.invalid_producer_epoch
        again = transaction_requests.end(connection, TRANSACTIONAL_ID, producer, committed=False)
        assert (again.error_code, again.producer_epoch) == (ErrorCode.none, 1)


def test_an_end_that_was_answered_reaches_every_partition(process: BrokerProcess) -> None:
    """The answer comes before the markers; the broker dies in between, or while it writes them."""
    create_topic(process, partitions=20)
    with connect(process.bootstrap_servers) as connection:
        producer = begin(connection, partitions=20)
        ended = transaction_requests.end(connection, TRANSACTIONAL_ID, producer, committed=True)
        assert ended.error_code is ErrorCode.none
    kill_and_start(process)
    with connect(process.bootstrap_servers) as connection:
        transaction_requests.prepare(connection)
        transaction_requests.settle(connection, TRANSACTIONAL_ID)
        assert transaction_requests.describe(connection, TRANSACTIONAL_ID).transaction_state == "CompleteCommit"
        for partition in range(20):
            answer = transaction_requests.fetch(connection, Place(TOPIC, partition))
            assert answer.last_stable_offset == answer.high_watermark
            first, *markers = batches.unpack(answer.records)
            assert first.is_transactional
            assert {each.marker[0] for each in markers} == {"COMMIT"}
        assert offset(connection) == (ErrorCode.none, 7)


def test_time_runs_out_while_nobody_is_there(process: BrokerProcess) -> None:
    create_topic(process)
    with connect(process.bootstrap_servers) as connection:
        begin(connection, timeout_ms=300)
    kill_and_start(process)
    with connect(process.bootstrap_servers) as connection:
        transaction_requests.prepare(connection)
        eventually(lambda: transaction_requests.fetch(connection, PLACE).last_stable_offset == 2)
        assert aborted(transaction_requests.fetch(connection, PLACE)) == [0]
        eventually(lambda: offset(connection) == (ErrorCode.none, -1))


def test_a_client_goes_on_with_its_transaction(process: BrokerProcess) -> None:
    create_topic(process)
    bootstrap = process.bootstrap_servers
    with closing(ConfluentProducer(bootstrap, TRANSACTIONAL_ID)) as producer:
        producer.begin()
        producer.send(TOPIC, b"before")
        kill_and_start(process)
        producer.send(TOPIC, b"after")
        producer.commit()
        producer.begin()
        producer.send(TOPIC, b"next")
        producer.commit()
    assert read_confluent(bootstrap, TOPIC, READ_COMMITTED) == Log([b"before", b"after", b"next"], 5)
