"""Transactions, request by request: the broker answers as Apache Kafka 4.3.1 did."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from kio.schema.errors import ErrorCode

from tests.compat import transaction_requests, transaction_script
from tests.compat.conftest import EXTERNAL_BROKER, MakeTopic
from tests.compat.transaction_requests import Place, Producer
from tests.compat.transaction_script import Paragraph
from tests.compat.wire import Connection, connect
from tests.txn import kafka, situations

VERSIONS = {22: (0, 5), 24: (0, 5), 25: (0, 4), 26: (0, 5), 27: (1, 2), 28: (0, 5), 61: (0, 0), 65: (0, 0), 66: (0, 2)}
CLIENT = {"client_software_name": "wire", "client_software_version": "1"}
LONG = "The epochs of a producer id are used up"
"""32766 requests lead there; `tests/txn` goes the same way without a broker."""


DIFFERENCES = {
    "A transactional batch without a producer.": "Ottla refuses what Apache Kafka stores outside of any transaction",
}
"""Where Ottla is known to answer otherwise."""


def chapters(script: str) -> list[Any]:
    return [
        pytest.param(each, id=each.title.rstrip("."), marks=_known(each.title))
        for each in transaction_script.paragraphs(script)
    ]


def _known(title: str) -> list[Any]:
    if EXTERNAL_BROKER or title not in DIFFERENCES:
        return []
    return [pytest.mark.xfail(reason=DIFFERENCES[title])]


def split(paragraphs: list[Any]) -> tuple[list[Any], list[Any]]:
    """Without and with waiting for a transaction to run out of time."""
    waiting = [each for each in paragraphs if "time-out" in each.values[0].requests]
    return [each for each in paragraphs if each not in waiting], waiting


PATIENT, WAITING = split(chapters(transaction_script.ANSWERS.read_text()))
COORDINATOR_PATIENT, COORDINATOR_WAITING = split(
    [each for each in chapters(kafka.ANSWERS.read_text()) if not each.values[0].title.startswith(LONG)]
)


@pytest.fixture(scope="module")
def ready_broker(bootstrap: str) -> str:
    with connect(bootstrap) as connection:
        transaction_requests.prepare(connection)
    return bootstrap


@pytest.fixture
def connection(ready_broker: str) -> Iterator[Connection]:
    with connect(ready_broker) as each:
        yield each


@pytest.mark.parametrize("paragraph", PATIENT)
def test_the_broker_answers_as_kafka_did(connection: Connection, admin: Any, paragraph: Paragraph) -> None:
    assert transaction_script.play(paragraph, connection, admin) == paragraph.lines


@pytest.mark.parametrize("paragraph", WAITING)
def test_the_broker_answers_as_kafka_did_when_time_is_up(hasty_broker: str, paragraph: Paragraph) -> None:
    admin = AdminClient({"bootstrap.servers": hasty_broker})
    with connect(hasty_broker) as connection:
        transaction_requests.prepare(connection)
        assert transaction_script.play(paragraph, connection, admin) == paragraph.lines


def asked_coordinator(paragraph: Paragraph, connection: Connection) -> str:
    speaker = kafka.Kafka(connection)
    speaker.prepare()
    return situations.run(told(paragraph), speaker)


def told(paragraph: Paragraph) -> str:
    return "\n".join([paragraph.title, *paragraph.lines]) + "\n"


@pytest.mark.parametrize("paragraph", COORDINATOR_PATIENT)
def test_the_coordinator_answers_as_kafkas_did(connection: Connection, paragraph: Paragraph) -> None:
    assert asked_coordinator(paragraph, connection) == told(paragraph)


@pytest.mark.parametrize("paragraph", COORDINATOR_WAITING)
def test_the_coordinator_answers_as_kafkas_did_when_time_is_up(hasty_broker: str, paragraph: Paragraph) -> None:
    with connect(hasty_broker) as connection:
        assert asked_coordinator(paragraph, connection) == told(paragraph)


def test_the_versions_of_transactional_requests(connection: Connection) -> None:
    reply = connection.call("api_versions", 4, **CLIENT)
    served = {each.api_key: (each.min_version, each.max_version) for each in reply.api_keys}
    expected = {
        22: (0, 5),
        24: (0, 5),
        25: (0, 4),
        26: (0, 5),
        27: (1, 2),
        28: (0, 5),
        61: (0, 0),
        65: (0, 0),
        66: (0, 2),
    }
    assert {key: served.get(key) for key in expected} == expected


@pytest.mark.parametrize(("version", "range_of_levels"), [(3, None), (4, (0, 2))])
def test_clients_are_told_to_use_the_second_protocol(
    connection: Connection, version: int, range_of_levels: tuple[int, int] | None
) -> None:
    """Before version 4 of the request, a range that begins with 0 could not be told."""
    reply = connection.call("api_versions", version, **CLIENT)
    supported = {each.name: (each.min_version, each.max_version) for each in reply.supported_features}
    finalized = {each.name: (each.min_version_level, each.max_version_level) for each in reply.finalized_features}
    assert supported.get("transaction.version") == range_of_levels
    assert finalized["transaction.version"] == (2, 2)
    assert reply.finalized_features_epoch >= 0


def test_many_transactions_in_one_request(connection: Connection, make_topic: MakeTopic, group: str) -> None:
    """A broker asks for all its producers at once, and each gets its own answer."""
    topic = make_topic(partitions=2)
    names = [f"{group}-{n}" for n in range(3)]
    producers = [Producer(*_identity(transaction_requests.init(connection, name))) for name in names]
    places = [Place(topic, 0), Place(topic, 1)]
    assert transaction_requests.add_partitions(connection, names[0], producers[0], places[:1]) == {
        places[0]: ErrorCode.none
    }
    stranger = Producer(producers[2].producer_id, 9)
    asked = {names[0]: (producers[0], places), names[1]: (producers[1], places[:1]), names[2]: (stranger, places[1:])}
    assert transaction_requests.add_many(connection, asked, verify_only=True) == {
        names[0]: {places[0]: ErrorCode.none, places[1]: ErrorCode.transaction_abortable},
        names[1]: {places[0]: ErrorCode.transaction_abortable},
        names[2]: {places[1]: ErrorCode.producer_fenced},
    }


def _identity(reply: Any) -> tuple[int, int]:
    assert reply.error_code is ErrorCode.none
    return reply.producer_id, reply.producer_epoch


def test_a_waiting_fetch_hears_of_a_commit(ready_broker: str, connection: Connection, topic: str, group: str) -> None:
    """The marker makes the records visible, without another record behind them."""
    producer = Producer(*_identity(transaction_requests.init(connection, group)))
    place = Place(topic, 0)
    batch = transaction_script.batch(producer, sequence=0)
    [answer] = transaction_requests.produce(connection, group, {place: batch}, version=12).values()
    assert answer.error_code is ErrorCode.none
    with connect(ready_broker) as reader:
        transaction_requests.send_fetch(reader, place, wait_ms=10_000, version=12)
        assert transaction_requests.end(connection, group, producer, committed=True).error_code is ErrorCode.none
        reply = reader.receive("fetch", 12)
    [partition] = reply.responses[0].partitions
    assert partition.last_stable_offset == 2
    assert len(partition.records) > len(batch)


def test_requests_that_follow_each_other_without_waiting(connection: Connection, topic: str, group: str) -> None:
    """The first batch has to wait for the coordinator; those behind it on the connection must not overtake it."""
    producer = Producer(*_identity(transaction_requests.init(connection, group)))
    place = Place(topic, 0)
    for sequence in range(5):
        records = {place: transaction_script.batch(producer, sequence)}
        transaction_requests.send_produce(connection, group, records, version=12)
    replies = [connection.receive("produce", 12).responses[0].partition_responses[0] for _ in range(5)]
    assert [(reply.error_code, reply.base_offset) for reply in replies] == [(ErrorCode.none, n) for n in range(5)]


@pytest.mark.xfail(not EXTERNAL_BROKER, reason="an id that is named twice is described once")
def test_each_of_many_is_described(connection: Connection, group: str) -> None:
    asked = [group, "nobody", "", "nobody"]
    assert transaction_requests.init(connection, group).error_code is ErrorCode.none
    found = transaction_requests.describe_many(connection, asked)
    unknown, invalid = ErrorCode.transactional_id_not_found, ErrorCode.invalid_request
    errors = [ErrorCode(each.error_code) for each in found]
    assert [each.transactional_id for each in found] == asked
    assert errors == [ErrorCode.none, unknown, invalid, unknown]
