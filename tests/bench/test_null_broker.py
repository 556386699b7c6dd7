"""The null broker as the benchmark runs it: a process that is started, measured, and gone afterwards."""

from collections import Counter

from confluent_kafka import KafkaError, Message, Producer

from bench import brokers, wire
from bench.brokers import Broker
from bench.generator import Kind, Load, run_requests
from bench.measurement import NULL

CONNECTIONS = 2


def load(broker: Broker, kind: Kind) -> Load:
    return Load(
        kind, broker.bootstrap, broker.process.pid, CONNECTIONS, CONNECTIONS, 0.15, 0.05, batch_bytes=wire.LARGE_BATCH
    )


def test_it_keeps_what_it_receives_sends_it_back_and_is_cleaned_up() -> None:
    with brokers.start(NULL) as broker:
        produced = run_requests(load(broker, "produce"))
        file = broker.directory / "null.log"
        assert file.stat().st_size >= produced.requests * wire.LARGE_BATCH
        fetched = run_requests(load(broker, "fetch"))
        assert fetched.received_bytes >= (fetched.requests - CONNECTIONS) * wire.LARGE_BATCH

        assert broker.usage().rss_bytes > 0
    assert broker.process.returncode is not None
    assert not broker.directory.exists()


def test_a_real_producer_takes_it_for_a_broker() -> None:
    told: Counter[int | None] = Counter()

    def deliver(error: KafkaError | None, message: Message) -> None:
        assert error is None
        told[message.partition()] += 1

    with brokers.start(NULL) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
        for number in range(300):
            producer.produce(wire.null_topic(3), b"x" * 1000, partition=number % 3, on_delivery=deliver)
        assert producer.flush(60) == 0
        assert told == {0: 100, 1: 100, 2: 100}
        assert (broker.directory / "null.log").stat().st_size > 300_000
