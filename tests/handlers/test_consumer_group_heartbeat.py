"""A client with `group.protocol=consumer` gets an error that it shows, and the log names it once."""

import logging
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError

import ottla
from ottla.errors import ErrorCode
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from tests.server.worlds import asynchronous, running


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "group.protocol" in record.getMessage()]


@asynchronous
async def test_every_heartbeat_is_rejected_and_the_first_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    request = ConsumerGroupHeartbeatRequest(group_id="g\n", member_id="m", subscribed_topic_names=["t"])
    with caplog.at_level(logging.WARNING, "ottla"):
        async with running(tmp_path) as world:
            for version in (0, 1, 1):
                reply = await world.call(request, version, ConsumerGroupHeartbeatResponse)
                assert reply.error_code == ErrorCode.UNSUPPORTED_VERSION
                assert reply.error_message == "group.protocol=consumer is not served; set group.protocol=classic"
                assert reply.assignment is None
    [line] = warnings(caplog)
    assert "group 'g\\n'" in line


def test_librdkafka_reports_a_fatal_error(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "ottla"), ottla.embedded() as broker:
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "client.id": "my-app"}
        for _ in range(2):
            consumer = Consumer({**settings, "group.protocol": "consumer"})
            consumer.subscribe(["t"])
            try:
                error = first_error(consumer)
            finally:
                consumer.close()
            assert error.code() == KafkaError._FATAL
            assert "ConsumerGroupHeartbeat fatal error: Broker: API version not supported" in error.str()
    [line] = warnings(caplog)
    assert line.startswith("client 'my-app' at 127.0.0.1, group 'g': ")


def first_error(consumer: Consumer) -> KafkaError:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None:
            return message.error()
    raise AssertionError("no error within 60 s")
