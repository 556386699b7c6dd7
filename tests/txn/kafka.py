"""Asks a running Apache Kafka for its answers: `python -m tests.txn.kafka host:port` writes them into the file.

The broker has to be a single node with transaction.abort.timed.out.transaction.cleanup.interval.ms=200.
"""

import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from ottla.errors import ErrorCode
from ottla.model import Producer, TopicPartition
from ottla.wire import codec
from ottla.wire.api.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.wire.api.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.api.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.api.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from ottla.wire.api.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.api.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.wire.framing import parse_response_header, request_header
from ottla.wire.schema import Request, Response
from tests.compat.wire import Connection, connect
from tests.txn.situations import Answer, run

ANSWERS = Path(__file__).with_name("kafka-4.3.1-answers.txt")

R = TypeVar("R", bound=Response)


class Kafka:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.begin()

    def begin(self) -> None:
        self._id = uuid.uuid4().hex

    def init(self, timeout_ms: int, expected: Producer | None, version: int) -> Answer:
        producer_id, epoch = expected or Producer(-1, -1)
        request = InitProducerIdRequest(
            transactional_id=self._id,
            transaction_timeout_ms=timeout_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        reply = self.call(request, InitProducerIdResponse, version)
        return _answer(reply.error_code, reply.producer_id, reply.producer_epoch)

    def add(self, producer: Producer, partitions: Sequence[TopicPartition], version: int) -> Answer:
        return self._add(producer, partitions, version, verify_only=False)

    def verify(self, producer: Producer, partitions: Sequence[TopicPartition], version: int) -> Answer:
        return self._add(producer, partitions, version, verify_only=True)

    def _add(
        self, producer: Producer, partitions: Sequence[TopicPartition], version: int, *, verify_only: bool
    ) -> Answer:
        topics = [
            AddPartitionsToTxnTopic(name=name, partitions=[it.partition for it in partitions if it.topic == name])
            for name in sorted({partition.topic for partition in partitions})
        ]
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=self._id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            verify_only=verify_only,
            topics=topics,
        )
        request = AddPartitionsToTxnRequest(
            transactions=[transaction],
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=topics,
        )
        reply = self.call(request, AddPartitionsToTxnResponse, version)
        results = [*reply.results_by_topic_v3_and_below]
        for result in reply.results_by_transaction:
            results += result.topic_results
        errors = {
            TopicPartition(topic.name, it.partition_index): ErrorCode(it.partition_error_code).name
            for topic in results
            for it in topic.results_by_partition
        }
        return Answer(tuple(errors[partition] for partition in partitions))

    def offsets(self, producer: Producer, version: int) -> Answer:
        request = AddOffsetsToTxnRequest(
            transactional_id=self._id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            group_id="group",
        )
        return _answer(self.call(request, AddOffsetsToTxnResponse, version).error_code)

    def end(self, producer: Producer, committed: bool, version: int) -> Answer:
        request = EndTxnRequest(
            transactional_id=self._id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=committed,
        )
        reply = self.call(request, EndTxnResponse, version)
        return _answer(reply.error_code, reply.producer_id, reply.producer_epoch)

    def describe(self) -> Answer:
        request = DescribeTransactionsRequest(transactional_ids=[self._id])
        [state] = self.call(request, DescribeTransactionsResponse, 0).transaction_states
        if state.error_code:
            return _answer(state.error_code)
        partitions = sorted(f"{topic.topic}-{number}" for topic in state.topics for number in topic.partitions)
        began = "never" if state.transaction_start_time_ms == -1 else "began"
        text = " ".join([state.transaction_state, str(state.transaction_timeout_ms), began, *partitions])
        return Answer(("NONE",), Producer(state.producer_id, state.producer_epoch), text)

    def states(self, wanted: Sequence[str], pattern: str | None) -> Answer:
        whole = None if pattern is None else f"{self._id}{pattern}"
        request = ListTransactionsRequest(state_filters=list(wanted), transactional_id_pattern=whole)
        reply = self.call(request, ListTransactionsResponse, 2)
        found = [it.transaction_state for it in reply.transaction_states if it.transactional_id == self._id]
        unknown = [f"?{name}" for name in sorted(reply.unknown_state_filters)]
        return Answer((ErrorCode(reply.error_code).name,), None, " ".join([*unknown, *found]))

    def settle(self) -> None:
        while "Prepare" in self.describe().text:
            time.sleep(0.02)

    def time_out(self) -> None:
        while "Ongoing" in self.describe().text:
            time.sleep(0.1)
        self.settle()

    def prepare(self) -> None:
        """Internal topics are made by whoever asks first, and take a moment."""
        topics = [CreatableTopic(name="t", num_partitions=3, replication_factor=1)]
        self.call(CreateTopicsRequest(topics=topics, timeout_ms=10_000), CreateTopicsResponse, 5)
        for key_type in (0, 1):
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["group"])
            while self.call(request, FindCoordinatorResponse, 6).coordinators[0].error_code:
                time.sleep(0.2)
        while self.init(60_000, None, 5).errors != ("NONE",):
            time.sleep(0.2)

    def call(self, request: Request, response: type[R], version: int) -> R:
        header = request_header(request.api_key, version, 1, "situations")
        self._connection.send_frame(header + codec.encode(request, version))
        frame = memoryview(self._connection.receive_frame())
        position = parse_response_header(request.api_key, version, frame).body_position
        reply, end = codec.decode(response, frame, version, position)
        assert end == len(frame)
        return reply


def _answer(error: int, producer_id: int = -1, epoch: int = -1) -> Answer:
    return Answer((ErrorCode(error).name,), Producer(producer_id, epoch) if producer_id != -1 else None)


if __name__ == "__main__":
    with connect(sys.argv[1]) as broker:
        kafka = Kafka(broker)
        kafka.prepare()
        ANSWERS.write_text(run(ANSWERS.read_text(), kafka))
