from collections.abc import Callable

import pytest

from ottla.config.alter import Operation, Resource, apply_full, apply_incremental, resource_of
from ottla.config.broker import BrokerConfig
from ottla.errors import ErrorCode, KafkaError

BROKER = BrokerConfig()
SET, DELETE, APPEND, SUBTRACT = Operation.SET, Operation.DELETE, Operation.APPEND, Operation.SUBTRACT
Operations = list[tuple[str, int, str | None]]


def refusal(call: Callable[[], object]) -> tuple[ErrorCode, str]:
    with pytest.raises(KafkaError) as caught:
        call()
    assert caught.value.message is not None
    return caught.value.code, caught.value.message


def test_set_and_delete() -> None:
    current = {"retention.ms": "1", "segment.ms": "2"}
    operations: Operations = [("retention.ms", SET, "3"), ("segment.ms", DELETE, None), ("flush.ms", DELETE, None)]
    assert apply_incremental(Resource.TOPIC, BROKER, current, operations) == {"retention.ms": "3"}
    assert current == {"retention.ms": "1", "segment.ms": "2"}, "the old values are left alone"


@pytest.mark.parametrize(
    ("current", "operation", "value", "result"),
    [
        (None, APPEND, "compact", "delete,compact"),
        (None, SUBTRACT, "delete", ""),
        ("", APPEND, "delete", "delete"),
        ("compact", APPEND, " delete , compact", "compact,delete"),
        ("compact", APPEND, "", "compact"),
        ("compact,delete", SUBTRACT, "delete", "compact"),
        ("compact", SUBTRACT, "nothing", "compact"),
        ("compact", SUBTRACT, "compact,delete", ""),
    ],
)
def test_lists_grow_and_shrink(current: str | None, operation: Operation, value: str, result: str) -> None:
    overrides = {} if current is None else {"cleanup.policy": current}
    operations: Operations = [("cleanup.policy", operation, value)]
    assert apply_incremental(Resource.TOPIC, BROKER, overrides, operations) == {"cleanup.policy": result}


def test_deleting_what_is_not_there_is_fine_even_under_an_unknown_name() -> None:
    operations: Operations = [("nope", DELETE, None)]
    for resource in Resource:
        assert apply_incremental(resource, BROKER, {}, operations) == {}


@pytest.mark.parametrize(
    ("resource", "operations", "code"),
    [
        (Resource.TOPIC, [("nope", SET, "1")], ErrorCode.INVALID_CONFIG),
        (Resource.TOPIC, [("retention.ms", SET, "abc")], ErrorCode.INVALID_CONFIG),
        (Resource.TOPIC, [("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST),
        (Resource.TOPIC, [("cleanup.policy", APPEND, None)], ErrorCode.INVALID_REQUEST),
        (Resource.TOPIC, [("cleanup.policy", APPEND, "foo")], ErrorCode.INVALID_CONFIG),
        (Resource.TOPIC, [("retention.ms", APPEND, "5")], ErrorCode.INVALID_CONFIG),
        (Resource.TOPIC, [("nope", SUBTRACT, "5")], ErrorCode.INVALID_CONFIG),
        (Resource.TOPIC, [("retention.ms", 9, "5")], ErrorCode.INVALID_REQUEST),
        (Resource.TOPIC, [("retention.ms", SET, "5"), ("retention.ms", SET, "6")], ErrorCode.INVALID_REQUEST),
        (Resource.TOPIC, [("remote.storage.enable", SET, "true")], ErrorCode.INVALID_CONFIG),
        (Resource.BROKER, [("num.partitions", SET, "2")], ErrorCode.INVALID_REQUEST),
        (Resource.BROKER, [("zookeeper.connect", SET, "x")], ErrorCode.INVALID_REQUEST),
        (Resource.BROKER, [("log.retention.ms", SET, "x")], ErrorCode.INVALID_REQUEST),
        (Resource.BROKER, [("log.retention.ms", SET, "0")], ErrorCode.INVALID_REQUEST),
        (Resource.BROKER, [("ssl.keystore.location", SET, "x")], ErrorCode.INVALID_REQUEST),
        (Resource.BROKER, [("listener.name.a.max.connections", SET, "x")], ErrorCode.INVALID_REQUEST),
        (Resource.BROKER, [("listeners", SET, "PLAINTEXT://127.0.0.1:9093")], ErrorCode.INVALID_REQUEST),
        (Resource.BROKER, [("nope", APPEND, "c")], ErrorCode.INVALID_CONFIG),
        (Resource.BROKER_DEFAULT, [("listeners", SET, "PLAINTEXT://:9")], ErrorCode.INVALID_REQUEST),
        (Resource.BROKER_DEFAULT, [("listener.name.a.ssl.keystore.location", SET, "x")], ErrorCode.INVALID_REQUEST),
        (Resource.BROKER_DEFAULT, [("log.segment.bytes", SET, "100")], ErrorCode.INVALID_REQUEST),
        (Resource.GROUP, [("nope", SET, "1")], ErrorCode.INVALID_CONFIG),
        (Resource.GROUP, [("consumer.session.timeout.ms", SET, "1")], ErrorCode.INVALID_CONFIG),
        (Resource.GROUP, [("consumer.session.timeout.ms", APPEND, "1")], ErrorCode.INVALID_CONFIG),
        (Resource.CLIENT_METRICS, [("nope", SET, "1")], ErrorCode.INVALID_REQUEST),
        (Resource.CLIENT_METRICS, [("interval.ms", SET, "1")], ErrorCode.INVALID_REQUEST),
        (Resource.CLIENT_METRICS, [("match", SET, "foo=bar")], ErrorCode.INVALID_CONFIG),
    ],
)
def test_refused_with_kafkas_code(resource: Resource, operations: Operations, code: ErrorCode) -> None:
    refused, message = refusal(lambda: apply_incremental(resource, BROKER, {}, operations))
    assert refused is code
    assert operations[0][0] in message or "only once" in message


@pytest.mark.parametrize(
    ("resource", "name", "value"),
    [
        (Resource.BROKER, "log.retention.ms", "10"),
        (Resource.BROKER, "listener.name.plaintext.ssl.keystore.location", "x"),
        (Resource.BROKER, "a.plugins.own.key", "1"),
        (Resource.BROKER, "leader.replication.throttled.rate", "1000"),
        (Resource.BROKER_DEFAULT, "message.max.bytes", "2000000"),
        (Resource.BROKER_DEFAULT, "listener.name.plaintext.max.connections", "10"),
        (Resource.GROUP, "consumer.session.timeout.ms", "50000"),
        (Resource.CLIENT_METRICS, "metrics", "org.apache.kafka.consumer."),
    ],
)
def test_accepted(resource: Resource, name: str, value: str) -> None:
    assert apply_incremental(resource, BROKER, {}, [(name, SET, value)]) == {name: value}
    assert apply_full(resource, BROKER, [(name, value)]) == {name: value}


def test_a_refusal_does_not_give_a_secret_away() -> None:
    _, message = refusal(lambda: apply_full(Resource.BROKER, BROKER, [("ssl.key.password", "hunter2")]))
    assert "hunter2" not in message


def test_full_replacement() -> None:
    assert apply_full(Resource.TOPIC, BROKER, []) == {}
    assert apply_full(Resource.TOPIC, BROKER, [("retention.ms", "5")]) == {"retention.ms": "5"}
    for values in ([("retention.ms", None)], [("retention.ms", "1"), ("retention.ms", "2")]):
        code, _ = refusal(lambda values=values: apply_full(Resource.TOPIC, BROKER, values))  # type: ignore[misc]
        assert code is ErrorCode.INVALID_REQUEST
    code, _ = refusal(lambda: apply_full(Resource.TOPIC, BROKER, [("segment.bytes", "1")]))
    assert code is ErrorCode.INVALID_CONFIG


def test_resources_of_the_protocol() -> None:
    assert resource_of(2, "t", 1) is Resource.TOPIC
    assert resource_of(4, "1", 1) is Resource.BROKER
    assert resource_of(4, "", 1) is Resource.BROKER_DEFAULT
    assert resource_of(16, "m", 1) is Resource.CLIENT_METRICS
    assert resource_of(32, "g", 1) is Resource.GROUP


@pytest.mark.parametrize(("type_id", "name"), [(0, "x"), (8, "1"), (4, "2"), (4, "one"), (32, ""), (16, ""), (2, "")])
def test_resources_this_broker_does_not_have(type_id: int, name: str) -> None:
    code, _ = refusal(lambda: resource_of(type_id, name, 1))
    assert code is ErrorCode.INVALID_REQUEST
