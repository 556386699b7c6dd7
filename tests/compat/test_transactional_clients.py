"""Transactions of confluent-kafka, kafka-python and aiokafka, with their default settings."""

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import ConsumerGroupTopicPartitions, IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from kafka import KafkaAdminClient
from kafka import TopicPartition as PythonTopicPartition
from kafka.admin import AbortTransactionSpec
from kafka.errors import KafkaError

from tests.compat import topics
from tests.compat.conftest import MakeTopic
from tests.compat.deadlines import eventually
from tests.compat.hanging_transactions import hang
from tests.compat.transaction_requests import Place
from tests.compat.transactional_clients import (
    GROUP_READERS,
    PRODUCERS,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    READERS,
    FencedError,
    GroupReader,
    Log,
    TransactionalProducer,
    read_kafka_python,
)
from tests.compat.wire import connect

NewProducer = Callable[[], TransactionalProducer]


@pytest.fixture(params=PRODUCERS)
def client(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def new_producer(client: str, bootstrap: str, unique: Callable[[], str]) -> Iterator[NewProducer]:
    """Producers of the test's client that share one transactional id."""
    transactional_id = unique()
    with ExitStack() as stack:

        def new() -> TransactionalProducer:
            return stack.enter_context(closing(PRODUCERS[client](bootstrap, transactional_id)))

        yield new


@pytest.fixture
def hasty_admin(hasty_broker: str) -> Any:
    return AdminClient({"bootstrap.servers": hasty_broker})


def end_offset(admin: Any, topic: str, isolation: Any) -> int:
    place = TopicPartition(topic, 0)
    answer = admin.list_offsets({place: OffsetSpec.latest()}, isolation_level=isolation)[place].result(10)
    offset: int = answer.offset
    return offset


def committed_offset(admin: Any, group: str, topic: str) -> int:
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
    [answer] = admin.list_consumer_group_offsets([asked], require_stable=True)[group].result(10).topic_partitions
    offset: int = answer.offset
    return offset


def test_every_client_reads_what_is_committed_and_nothing_else(
    new_producer: NewProducer, bootstrap: str, topic: str, client: str
) -> None:
    """The last transaction is aborted, so a reader has to step over records and over markers to be at the end."""
    producer = new_producer()
    for end, values in ((producer.commit, [b"a", b"b"]), (producer.abort, [b"c"]), (producer.commit, [b"d"])):
        producer.begin()
        producer.send(topic, *values)
        end()
    producer.begin()
    producer.send(topic, b"e")
    producer.abort()
    found = {name: read(bootstrap, topic, READ_COMMITTED) for name, read in READERS.items()}
    assert found == dict.fromkeys(READERS, Log([b"a", b"b", b"d"], 9))
    assert READERS[client](bootstrap, topic, READ_UNCOMMITTED) == Log([b"a", b"b", b"c", b"d", b"e"], 9)


def test_nothing_is_read_beyond_an_open_transaction(
    new_producer: NewProducer, bootstrap: str, topic: str, admin: Any, client: str
) -> None:
    producer = new_producer()
    producer.begin()
    producer.send(topic, b"first")
    producer.commit()
    producer.begin()
    producer.send(topic, b"second")
    assert end_offset(admin, topic, IsolationLevel.READ_COMMITTED) == 2
    assert end_offset(admin, topic, IsolationLevel.READ_UNCOMMITTED) == 3
    assert READERS[client](bootstrap, topic, READ_COMMITTED) == Log([b"first"], 2)
    assert READERS[client](bootstrap, topic, READ_UNCOMMITTED) == Log([b"first", b"second"], 3)
    producer.commit()
    eventually(lambda: end_offset(admin, topic, IsolationLevel.READ_COMMITTED) == 4)
    assert READERS[client](bootstrap, topic, READ_COMMITTED) == Log([b"first", b"second"], 4)


@pytest.mark.parametrize("action", ["send", "commit", "abort"])
def test_an_older_producer_is_fenced(new_producer: NewProducer, bootstrap: str, topic: str, action: str) -> None:
    old = new_producer()
    old.begin()
    old.send(topic, b"old")
    new = new_producer()
    with pytest.raises(FencedError):
        old.send(topic, b"zombie") if action == "send" else getattr(old, action)()
    new.begin()
    new.send(topic, b"new")
    new.commit()
    assert READERS["confluent"](bootstrap, topic, READ_COMMITTED).values == [b"new"]


def test_records_and_offsets_in_one_transaction(
    new_producer: NewProducer, bootstrap: str, make_topic: MakeTopic, group: str, admin: Any, client: str
) -> None:
    """Copy two records and abort, copy them again and commit; the copy is there once, and the group goes on behind."""
    source, target = make_topic(), make_topic()
    producer = new_producer()
    producer.begin()
    producer.send(source, b"1", b"2", b"3")
    producer.commit()

    def copy(reader: GroupReader, end: Callable[[], None]) -> None:
        producer.begin()
        producer.send(target, *reader.take(2))
        producer.send_offset(reader, source, 2)
        end()

    with closing(GROUP_READERS[client](bootstrap, source, group)) as reader:
        copy(reader, producer.abort)
    assert committed_offset(admin, group, source) < 0
    with closing(GROUP_READERS[client](bootstrap, source, group)) as reader:
        copy(reader, producer.commit)
    eventually(lambda: committed_offset(admin, group, source) == 2)
    with closing(GROUP_READERS[client](bootstrap, source, group)) as reader:
        assert reader.take(1) == [b"3"]
    assert READERS[client](bootstrap, target, READ_COMMITTED) == Log([b"1", b"2"], 6)


@pytest.mark.parametrize("client", ["confluent", "kafka-python"])
def test_offsets_of_a_former_member_are_refused(
    new_producer: NewProducer, bootstrap: str, make_topic: MakeTopic, group: str, admin: Any, client: str
) -> None:
    """aiokafka does not say who commits, so nobody can tell."""
    source, target = make_topic(), make_topic()
    producer = new_producer()
    producer.begin()
    producer.send(source, b"1")
    producer.commit()
    with closing(GROUP_READERS[client](bootstrap, source, group)) as former:
        values = former.take(1)
    with closing(GROUP_READERS[client](bootstrap, source, group)) as reader:
        assert reader.take(1) == values
        producer.begin()
        producer.send(target, *values)
        with pytest.raises((KafkaException, KafkaError)):
            producer.send_offset(former, source, 1)
        producer.abort()
    assert committed_offset(admin, group, source) < 0
    assert READERS[client](bootstrap, target, READ_COMMITTED) == Log([], 2)


def test_a_transaction_out_of_time_is_aborted(
    client: str, hasty_broker: str, hasty_admin: Any, unique: Callable[[], str]
) -> None:
    topic = unique()
    topics.create(hasty_admin, topic)
    with closing(PRODUCERS[client](hasty_broker, unique(), timeout_ms=1000)) as producer:
        producer.begin()
        producer.send(topic, b"idle")
        assert end_offset(hasty_admin, topic, IsolationLevel.READ_COMMITTED) == 0
        eventually(lambda: end_offset(hasty_admin, topic, IsolationLevel.READ_COMMITTED) == 2)
        assert READERS[client](hasty_broker, topic, READ_COMMITTED) == Log([], 2)
        with pytest.raises((FencedError, KafkaException, KafkaError, AioKafkaError)):
            producer.commit()


def test_hanging_transactions_in_kafka_python(bootstrap: str, topic: str, unique: Callable[[], str]) -> None:
    """Looked at and aborted with its admin client."""
    transactional_id, partition = unique(), PythonTopicPartition(topic, 0)
    now = int(time.time() * 1000)
    with connect(bootstrap) as connection, closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        producer = hang(connection, transactional_id, Place(topic, 0), now - 3_600_000)
        described = admin.describe_transactions([transactional_id])[transactional_id]
        assert (described.state, described.topic_partitions) == ("Empty", set())
        [listed] = itertools.chain(*admin.list_transactions(producer_id_filters=[producer.producer_id]).values())
        assert (listed.transactional_id, listed.state) == (transactional_id, "Empty")
        [state] = admin.describe_producers([partition])[partition].active_producers
        assert (state.producer_id, state.current_transaction_start_offset) == (producer.producer_id, 0)
        admin.abort_transaction(AbortTransactionSpec(partition, *producer))
        [state] = admin.describe_producers([partition])[partition].active_producers
        assert state.current_transaction_start_offset == -1
    assert read_kafka_python(bootstrap, topic, READ_COMMITTED) == Log([], 2)
