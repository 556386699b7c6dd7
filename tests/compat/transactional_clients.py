"""Three client libraries behind the same calls, so that each story about transactions is told once."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, NamedTuple, Protocol, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from aiokafka.errors import ProducerFenced
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata
from kafka import TopicPartition as PythonTopicPartition
from kafka.errors import InvalidProducerEpochError, ProducerFencedError

from tests.compat.deadlines import eventually

READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"
DEADLINE = 60.0
FETCH_WAIT_MS = 20
"""How long a broker may hold back the news that there is nothing more to read."""
T = TypeVar("T")


class FencedError(Exception):
    """Another producer has taken over the transactional id."""


class Log(NamedTuple):
    """What a consumer found in a partition, and where it stood when there was nothing more to read."""

    values: list[bytes]
    position: int


class TransactionalProducer(Protocol):
    """All methods wait for the broker. One that is fenced raises FencedError, whatever its library calls that."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None: ...

    def begin(self) -> None: ...

    def send(self, topic: str, *values: bytes) -> None: ...

    def send_offset(self, group: "GroupReader", topic: str, offset: int) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...


class GroupReader(Protocol):
    """The only member of a group, which reads what is committed and commits offsets in transactions only.

    In a transaction it goes by the name that it had when it last read, even if it has left the group since.
    """

    def __init__(self, bootstrap: str, topic: str, group: str) -> None: ...

    def take(self, count: int) -> list[bytes]: ...

    def close(self) -> None: ...


class ConfluentProducer:
    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        settings = {"transactional.id": transactional_id, "transaction.timeout.ms": timeout_ms, "linger.ms": 0}
        self._producer = Producer({"bootstrap.servers": bootstrap, **settings})
        self._call("init_transactions", DEADLINE)

    def begin(self) -> None:
        self._call("begin_transaction")

    def send(self, topic: str, *values: bytes) -> None:
        errors: list[Any] = []
        for value in values:
            self._call("produce", topic, value, partition=0, on_delivery=lambda error, _: errors.append(error))
        self._call("flush", DEADLINE)
        assert len(errors) == len(values)
        for error in filter(None, errors):
            self._raise(error)

    def send_offset(self, group: GroupReader, topic: str, offset: int) -> None:
        assert isinstance(group, ConfluentGroupReader)
        offsets = [TopicPartition(topic, 0, offset)]
        self._call("send_offsets_to_transaction", offsets, group.metadata, DEADLINE)

    def commit(self) -> None:
        self._call("commit_transaction", DEADLINE)

    def abort(self) -> None:
        self._call("abort_transaction", DEADLINE)

    def close(self) -> None:
        """librdkafka says goodbye to nobody, and ends with its last reference; what is open stays open."""
        self._producer.purge()
        del self._producer

    def _call(self, method: str, *arguments: Any, **options: Any) -> None:
        try:
            getattr(self._producer, method)(*arguments, **options)
        except (KafkaException, SystemError) as error:
            # A fatal error is raised when confluent-kafka polls; a delivery report that comes with it trips over it.
            reason: Any = error.__cause__ if isinstance(error, SystemError) else error
            self._raise(reason.args[0])

    def _raise(self, error: Any) -> None:
        if error.code() == KafkaError._FENCED:
            raise FencedError(str(error))
        raise KafkaException(error)


class KafkaPythonProducer:
    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        settings = {"transactional_id": transactional_id, "transaction_timeout_ms": timeout_ms}
        self._producer = KafkaProducer(bootstrap_servers=bootstrap, **settings)
        self._producer.init_transactions()

    def begin(self) -> None:
        self._call("begin_transaction")

    def send(self, topic: str, *values: bytes) -> None:
        try:
            futures = [self._producer.send(topic, value, partition=0) for value in values]
            for future in futures:
                future.get(timeout=DEADLINE)
        except (ProducerFencedError, InvalidProducerEpochError) as error:
            raise FencedError(str(error)) from error

    def send_offset(self, group: GroupReader, topic: str, offset: int) -> None:
        assert isinstance(group, KafkaPythonGroupReader)
        offsets = {PythonTopicPartition(topic, 0): OffsetAndMetadata(offset, "", -1)}
        self._call("send_offsets_to_transaction", offsets, group.metadata)

    def commit(self) -> None:
        self._call("commit_transaction")

    def abort(self) -> None:
        self._call("abort_transaction")

    def close(self) -> None:
        self._producer.close(timeout=0)

    def _call(self, method: str, *arguments: Any) -> None:
        try:
            getattr(self._producer, method)(*arguments)
        except ProducerFencedError as error:
            raise FencedError(str(error)) from error


class Loop:
    """aiokafka works in the background even while a test does not wait for it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, DEADLINE), self._loop).result()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class AioKafkaProducer:
    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self._loop = Loop()

        async def started() -> Any:
            settings = {"transactional_id": transactional_id, "transaction_timeout_ms": timeout_ms}
            producer = AIOKafkaProducer(bootstrap_servers=bootstrap, **settings)
            await producer.start()
            return producer

        self._producer = self._loop.run(started())

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, topic: str, *values: bytes) -> None:
        async def sent() -> None:
            reports = [await self._producer.send(topic, value, partition=0) for value in values]
            await asyncio.gather(*reports)

        self._run(sent())

    def send_offset(self, group: GroupReader, topic: str, offset: int) -> None:
        """aiokafka knows the group's name only, so it cannot be fenced by generation."""
        assert isinstance(group, AioKafkaGroupReader)
        offsets = {AioTopicPartition(topic, 0): offset}
        self._run(self._producer.send_offsets_to_transaction(offsets, group.group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        self._loop.run(self._producer.stop())
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return self._loop.run(work)
        except ProducerFenced as error:
            raise FencedError(str(error)) from error


class ConfluentGroupReader:
    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        settings = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "isolation.level": READ_COMMITTED}
        self.metadata: Any = None
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, **settings})
        self._consumer.subscribe([topic])

    def take(self, count: int) -> list[bytes]:
        messages: list[Any] = []

        def enough() -> bool:
            messages.extend(self._consumer.consume(count - len(messages), 0.2))
            return len(messages) >= count

        eventually(enough)
        self.metadata = self._consumer.consumer_group_metadata()
        return [message.value() for message in messages]

    def close(self) -> None:
        self._consumer.close()


class KafkaPythonGroupReader:
    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        settings = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "isolation_level": READ_COMMITTED}
        self.metadata: Any = None
        self._consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=group, **settings)
        self._consumer.partitions_for_topic(topic)

    def take(self, count: int) -> list[bytes]:
        values: list[bytes] = []

        def enough() -> bool:
            for records in self._consumer.poll(timeout_ms=200, max_records=count - len(values)).values():
                values.extend(record.value for record in records)
            return len(values) >= count

        eventually(enough)
        self.metadata = self._consumer.group_metadata()
        return values

    def close(self) -> None:
        self._consumer.close()


class AioKafkaGroupReader:
    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self.group = group
        self._loop = Loop()

        async def started() -> Any:
            settings = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "isolation_level": READ_COMMITTED}
            consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=group, **settings)
            await consumer.start()
            return consumer

        self._consumer = self._loop.run(started())

    def take(self, count: int) -> list[bytes]:
        return [self._loop.run(self._consumer.getone()).value for _ in range(count)]

    def close(self) -> None:
        self._loop.run(self._consumer.stop())
        self._loop.close()


def read_confluent(bootstrap: str, topic: str, isolation: str) -> Log:
    settings = {"group.id": "none", "isolation.level": isolation, "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": bootstrap, "fetch.wait.max.ms": FETCH_WAIT_MS, **settings})
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes] = []

    def at_the_end() -> bool:
        messages = consumer.consume(1000, FETCH_WAIT_MS / 1000)
        values.extend(message.value() for message in messages if not message.error())
        return any(message.error() and message.error().code() == KafkaError._PARTITION_EOF for message in messages)

    eventually(at_the_end)
    [position] = consumer.position([TopicPartition(topic, 0)])
    consumer.close()
    return Log(values, position.offset)


def read_kafka_python(bootstrap: str, topic: str, isolation: str) -> Log:
    partition = PythonTopicPartition(topic, 0)
    settings = {"isolation_level": isolation, "fetch_max_wait_ms": FETCH_WAIT_MS}
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, **settings)
    consumer.assign([partition])
    consumer.seek_to_beginning()
    end = consumer.end_offsets([partition])[partition]
    values: list[bytes] = []

    def at_the_end() -> bool:
        for records in consumer.poll(timeout_ms=100).values():
            values.extend(record.value for record in records)
        return bool(consumer.position(partition) >= end)

    eventually(at_the_end)
    position = consumer.position(partition)
    consumer.close()
    return Log(values, position)


def read_aiokafka(bootstrap: str, topic: str, isolation: str) -> Log:
    partition = AioTopicPartition(topic, 0)
    settings = {"isolation_level": isolation, "fetch_max_wait_ms": FETCH_WAIT_MS}

    async def read() -> Log:
        async with AIOKafkaConsumer(bootstrap_servers=bootstrap, **settings) as consumer:
            consumer.assign([partition])
            await consumer.seek_to_beginning()
            end = (await consumer.end_offsets([partition]))[partition]
            values: list[bytes] = []
            while await consumer.position(partition) < end:
                for records in (await consumer.getmany(timeout_ms=100)).values():
                    values.extend(record.value for record in records)
            return Log(values, await consumer.position(partition))

    return asyncio.run(asyncio.wait_for(read(), DEADLINE))


PRODUCERS: dict[str, type[TransactionalProducer]] = {
    "confluent": ConfluentProducer,
    "kafka-python": KafkaPythonProducer,
    "aiokafka": AioKafkaProducer,
}
GROUP_READERS: dict[str, type[GroupReader]] = {
    "confluent": ConfluentGroupReader,
    "kafka-python": KafkaPythonGroupReader,
    "aiokafka": AioKafkaGroupReader,
}
READERS = {"confluent": read_confluent, "kafka-python": read_kafka_python, "aiokafka": read_aiokafka}
