"""The core says what Apache Kafka said. What a handler adds, the older name of an error, is added here too."""

from collections.abc import Sequence
from itertools import count

from ottla.errors import ErrorCode, KafkaError
from ottla.model import Producer, TopicPartition
from ottla.txn.commands import PROTOCOL_1, PROTOCOL_2
from ottla.txn.listing import TransactionFilter
from ottla.txn.results import AddPartitionsResult, EndTxnResult, InitProducerIdResult, for_older_client
from tests.txn.kafka import ANSWERS
from tests.txn.shard import Shard
from tests.txn.situations import Answer, Speaker, run

GROUP_PARTITION = TopicPartition("__consumer_offsets", 7)


class Core:
    def __init__(self) -> None:
        self._shard = Shard()
        self._ids = count(1)

    def begin(self) -> None:
        self._id = f"id-{next(self._ids)}"

    def init(self, timeout_ms: int, expected: Producer | None, version: int) -> Answer:
        result = self._shard.replies[self._shard.init(self._id, timeout_ms, expected)]
        assert isinstance(result, InitProducerIdResult)
        return _answer(result.error, version < 4, result.producer_id, result.producer_epoch)

    def add(self, producer: Producer, partitions: Sequence[TopicPartition], version: int) -> Answer:
        protocol = PROTOCOL_2 if version > 3 else PROTOCOL_1
        result = self._shard.replies[self._shard.add(self._id, producer, partitions, protocol)]
        assert isinstance(result, AddPartitionsResult)
        return Answer(tuple((for_older_client(error) if version < 2 else error).name for error in result.errors))

    def verify(self, producer: Producer, partitions: Sequence[TopicPartition], version: int) -> Answer:
        return Answer(tuple(error.name for error in self._shard.verify(self._id, producer, partitions)))

    def offsets(self, producer: Producer, version: int) -> Answer:
        return self.add(producer, [GROUP_PARTITION], min(version, 3))

    def end(self, producer: Producer, committed: bool, version: int) -> Answer:
        protocol = PROTOCOL_2 if version > 4 else PROTOCOL_1
        result = self._shard.replies[self._shard.end(self._id, producer, committed, protocol)]
        assert isinstance(result, EndTxnResult)
        producer_id = result.producer_id if version > 4 else -1
        return _answer(result.error, version < 2, producer_id, result.producer_epoch)

    def describe(self) -> Answer:
        found = self._shard.core.describe(self._id)
        if found.error is not ErrorCode.NONE:
            return _answer(found.error)
        began = "never" if found.transaction_start_time_ms == -1 else "began"
        text = " ".join([found.state, str(found.transaction_timeout_ms), began, *map(str, found.partitions)])
        return Answer(("NONE",), Producer(found.producer_id, found.producer_epoch), text)

    def states(self, wanted: Sequence[str], pattern: str | None) -> Answer:
        try:
            asked = TransactionFilter(wanted, pattern=None if pattern is None else self._id + pattern)
        except KafkaError as error:
            return _answer(error.code)
        listed = self._shard.core.list_transactions(asked, self._shard.now)
        found = [it.state for it in listed if it is not None and it.transactional_id == self._id]
        return Answer(("NONE",), None, " ".join([*(f"?{name}" for name in asked.unknown_states), *found]))

    def settle(self) -> None:
        self._shard.write_markers()

    def time_out(self) -> None:
        self._shard.wait(1001)
        self.settle()


def _answer(error: ErrorCode, older: bool = False, producer_id: int = -1, epoch: int = -1) -> Answer:
    name = (for_older_client(error) if older else error).name
    return Answer((name,), Producer(producer_id, epoch) if producer_id != -1 else None)


def test_the_core_answers_as_kafka_did() -> None:
    script = ANSWERS.read_text()
    core: Speaker = Core()
    assert run(script, core) == script
    assert script.count("\n>") > 150
