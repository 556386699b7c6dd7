"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources."""

from collections.abc import Iterator, Sequence

from ottla.wire.api.alter_configs import AlterableConfig as Setting
from ottla.wire.api.alter_configs import AlterConfigsRequest
from ottla.wire.api.alter_configs import AlterConfigsResource as SettingsOfResource
from ottla.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.api.list_config_resources import ListConfigResourcesRequest
from tests.compat.differential.case import Case, case, versions

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, REMOVE, APPEND, SUBTRACT = range(4)
DESCRIBE, ALTER, INCREMENTAL = range(1, 5), range(3), range(2)

Resource = tuple[int, str]


def describe(*resources: Resource, keys: list[str] | None = None, synonyms: bool = False) -> DescribeConfigsRequest:
    wanted = [
        DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
        for kind, name in resources
    ]
    return DescribeConfigsRequest(resources=wanted, include_synonyms=synonyms)


def alter(*resources: Resource, **configs: str | None) -> AlterConfigsRequest:
    """Validate only, as all of these cases: nothing changes for those that follow."""
    settings = [Setting(name=name.replace("_", "."), value=value) for name, value in configs.items()]
    wanted = [SettingsOfResource(resource_type=kind, resource_name=name, configs=settings) for kind, name in resources]
    return AlterConfigsRequest(resources=wanted, validate_only=True)


def change(*resources: Resource, ops: Sequence[tuple[str, int, str | None]]) -> IncrementalAlterConfigsRequest:
    changes = [AlterableConfig(name=name, config_operation=it, value=value) for name, it, value in ops]
    wanted = [AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes) for kind, name in resources]
    return IncrementalAlterConfigsRequest(resources=wanted, validate_only=True)


_EVENTS, _THIS, _ALL, _KNOWN = (TOPIC, "events"), (BROKER, "1"), (BROKER, ""), (GROUP, "known")
_NO_TOPICS: dict[str, Resource] = {
    "an unknown topic": (TOPIC, "unknown"),
    "an empty topic name": (TOPIC, ""),
    "a bad topic name": (TOPIC, "a b"),
    "a long topic name": (TOPIC, "x" * 250),
    "the metadata topic": (TOPIC, "__cluster_metadata"),
    "another broker": (BROKER, "9"),
    "a broker that is no number": (BROKER, "one"),
    "a negative broker": (BROKER, "-1"),
    "an empty group name": (GROUP, ""),
    "an empty subscription": (METRICS, ""),
    "an unknown type": (99, "x"),
    "type 0": (0, "x"),
    "a negative type": (-1, "x"),
}


def _of_no_topics() -> Iterator[Case]:
    for what, resource in _NO_TOPICS.items():
        yield from versions(f"DescribeConfigs of {what}", (1, 4), describe(resource))
        yield from versions(f"AlterConfigs of {what}", (0, 2), alter(resource))
        yield from versions(f"IncrementalAlterConfigs of {what}", (0, 1), change(resource, ops=[]))
        yield case(f"IncrementalAlterConfigs of a key of {what}", (1, change(resource, ops=[("x", SET, "1")])))


_BROKER_VALUES = (
    ("max.connections", "0"),
    ("max.connections", "-1"),
    ("max.connections.per.ip", "0"),
    ("max.connections.per.ip.overrides", "x"),
    ("max.connections.per.ip.overrides", "127.0.0.1:x"),
    ("max.connections.per.ip.overrides", "127.0.0.1:5"),
    ("max.connections.per.ip.overrides", "no.such.host.invalid:5"),
    ("max.connection.creation.rate", "0"),
    ("max.connection.creation.rate", "1"),
    ("log.cleaner.dedupe.buffer.size", "0"),
    ("log.cleaner.dedupe.buffer.size", "1048576"),
    ("log.cleaner.dedupe.buffer.size", "1048577"),
    ("log.cleaner.threads", "0"),
    ("log.cleaner.threads", "2"),
    ("log.cleaner.threads", "3"),
    ("log.cleaner.io.buffer.size", "0"),
    ("log.cleaner.io.buffer.load.factor", "0"),
    ("log.cleaner.io.buffer.load.factor", "2"),
    ("log.cleaner.io.max.bytes.per.second", "0"),
    ("log.cleaner.io.max.bytes.per.second", "-1"),
    ("log.cleaner.backoff.ms", "-1"),
    ("log.cleaner.delete.retention.ms", "-1"),
    ("log.cleaner.min.cleanable.ratio", "1.5"),
    ("log.cleaner.min.compaction.lag.ms", "9223372036854775807"),
    ("log.cleaner.max.compaction.lag.ms", "0"),
    ("log.local.retention.ms", "-1"),
    ("log.local.retention.ms", "-2"),
    ("log.local.retention.ms", "-3"),
    ("log.local.retention.ms", "0"),
    ("log.local.retention.ms", "9223372036854775807"),
    ("log.local.retention.bytes", "-1"),
    ("log.local.retention.bytes", "5"),
    ("log.retention.ms", "0"),
    ("log.retention.ms", "-1"),
    ("log.retention.ms", "-2"),
    ("log.retention.bytes", "0"),
    ("log.retention.bytes", "-2"),
    ("log.roll.ms", "0"),
    ("log.roll.jitter.ms", "-1"),
    ("log.segment.bytes", "100"),
    ("log.segment.bytes", "1048576"),
    ("log.index.size.max.bytes", "1"),
    ("log.index.interval.bytes", "-1"),
    ("log.flush.interval.messages", "0"),
    ("log.flush.interval.ms", "-1"),
    ("log.message.timestamp.type", "x"),
    ("log.message.timestamp.before.max.ms", "-1"),
    ("log.message.timestamp.after.max.ms", "-1"),
    ("log.cleanup.policy", ""),
    ("log.cleanup.policy", "x"),
    ("log.cleanup.policy", "delete,compact"),
    ("log.cleanup.policy", "none"),
    ("message.max.bytes", "-1"),
    ("message.max.bytes", "0"),
    ("min.insync.replicas", "0"),
    ("min.insync.replicas", "5"),
    ("compression.type", "x"),
    ("compression.gzip.level", "0"),
    ("compression.lz4.level", "0"),
    ("compression.zstd.level", "23"),
    ("metric.reporters", "x"),
    ("metric.reporters", ""),
    ("num.io.threads", "0"),
    ("num.io.threads", "16"),
    ("num.io.threads", "17"),
    ("num.io.threads", "3"),
    ("num.io.threads", "4"),
    ("num.network.threads", "6"),
    ("num.network.threads", "7"),
    ("num.network.threads", "1"),
    ("num.replica.fetchers", "0"),
    ("num.replica.fetchers", "2"),
    ("num.replica.fetchers", "3"),
    ("num.recovery.threads.per.data.dir", "5"),
    ("background.threads", "4"),
    ("background.threads", "21"),
    ("unclean.leader.election.enable", "x"),
    ("unclean.leader.election.enable", "TRUE"),
    ("leader.replication.throttled.rate", "-1"),
    ("leader.replication.throttled.rate", "x"),
    ("leader.replication.throttled.rate", "0"),
    ("follower.replication.throttled.rate", "-1"),
    ("replica.alter.log.dirs.io.max.bytes.per.second", "-1"),
    ("transaction.partition.verification.enable", "x"),
    ("producer.id.expiration.ms", "0"),
    ("producer.id.expiration.ms", "1"),
    ("group.consumer.assignment.interval.ms", "15001"),
    ("group.consumer.assignment.interval.ms", "15000"),
    ("group.share.assignment.interval.ms", "15001"),
    ("group.streams.assignment.interval.ms", "15001"),
    ("group.consumer.assignment.interval.ms", "-1"),
    ("group.consumer.assignor.offload.enable", "x"),
    ("remote.log.manager.copier.thread.pool.size", "0"),
    ("remote.log.manager.copier.thread.pool.size", "-1"),
    ("remote.log.manager.copier.thread.pool.size", "5"),
    ("remote.log.manager.copy.max.bytes.per.second", "0"),
    ("remote.log.index.file.cache.total.size.bytes", "0"),
    ("remote.log.reader.threads", "5"),
    ("remote.fetch.max.wait.ms", "0"),
    ("share.version", "1"),
    ("nope", "1"),
    ("num.partitions", "2"),
    ("listeners", "PLAINTEXT://127.0.0.1:1"),
    ("ssl.keystore.location", "x"),
    ("listener.name.plaintext.max.connections", "0"),
    ("listener.name.plaintext.max.connections", "x"),
    ("listener.name.plaintext.max.connection.creation.rate", "0"),
    ("listener.name.plaintext.ssl.keystore.location", "x"),
    ("sasl.jaas.config", "x"),
    ("principal.builder.class", "x"),
    ("config.providers", "x"),
    ("ssl.client.auth", "x"),
    ("connections.max.idle.ms", "1"),
)


def _broker_values() -> Iterator[Case]:
    for key, value in _BROKER_VALUES:
        name = f"{key}={value}"
        yield case(f"IncrementalAlterConfigs of a broker, {name}", (1, change(_THIS, ops=[(key, SET, value)])))
        if key.startswith(("max.connection", "log.cleaner", "log.local", "metric", "group")):
            yield case(f"IncrementalAlterConfigs of all brokers, {name}", (1, change(_ALL, ops=[(key, SET, value)])))
            yield case(f"AlterConfigs of a broker, {name}", (2, alter(_THIS, **{key: value})))


_TOPIC_VALUES = (
    ("retention.ms", "-1"),
    ("retention.ms", "-2"),
    ("retention.ms", ""),
    ("retention.ms", " 5 "),
    ("retention.ms", "5.0"),
    ("retention.bytes", "-2"),
    ("segment.bytes", "1"),
    ("segment.bytes", "2147483648"),
    ("segment.ms", "0"),
    ("segment.jitter.ms", "-1"),
    ("cleanup.policy", ""),
    ("cleanup.policy", "x"),
    ("cleanup.policy", "compact,delete"),
    ("cleanup.policy", "compact,compact"),
    ("min.cleanable.dirty.ratio", "2"),
    ("min.cleanable.dirty.ratio", "NaN"),
    ("min.compaction.lag.ms", "-1"),
    ("max.compaction.lag.ms", "0"),
    ("min.insync.replicas", "0"),
    ("min.insync.replicas", "9"),
    ("max.message.bytes", "-1"),
    ("max.message.bytes", "0"),
    ("flush.messages", "0"),
    ("flush.ms", "-1"),
    ("file.delete.delay.ms", "-1"),
    ("index.interval.bytes", "-1"),
    ("segment.index.bytes", "3"),
    ("segment.index.bytes", "4"),
    ("delete.retention.ms", "-1"),
    ("preallocate", "yes"),
    ("preallocate", "True"),
    ("compression.type", "x"),
    ("compression.type", "GZIP"),
    ("compression.gzip.level", "0"),
    ("compression.lz4.level", "18"),
    ("message.timestamp.type", "x"),
    ("message.timestamp.before.max.ms", "-1"),
    ("local.retention.ms", "-3"),
    ("local.retention.ms", "-1"),
    ("local.retention.bytes", "-3"),
    ("remote.storage.enable", "true"),
    ("remote.log.copy.disable", "true"),
    ("remote.log.delete.on.disable", "true"),
    ("leader.replication.throttled.replicas", "*"),
    ("leader.replication.throttled.replicas", "x"),
    ("leader.replication.throttled.replicas", "0:1,1:2"),
    ("unclean.leader.election.enable", "x"),
    ("message.format.version", "3.0"),
    ("nope", "1"),
    ("", "1"),
)


def _topic_values() -> Iterator[Case]:
    for key, value in _TOPIC_VALUES:
        yield case(f"IncrementalAlterConfigs of a topic, {key}={value}", (1, change(_EVENTS, ops=[(key, SET, value)])))
    for key, value in _TOPIC_VALUES[:10]:
        yield case(f"AlterConfigs of a topic, {key}={value}", (2, alter(_EVENTS, **{key: value})))


_GROUP_VALUES = (
    ("consumer.session.timeout.ms", "1"),
    ("consumer.session.timeout.ms", "44999"),
    ("consumer.session.timeout.ms", "60001"),
    ("consumer.session.timeout.ms", "50000"),
    ("consumer.session.timeout.ms", "x"),
    ("consumer.session.timeout.ms", "0"),
    ("consumer.heartbeat.interval.ms", "4999"),
    ("consumer.heartbeat.interval.ms", "15001"),
    ("consumer.assignment.interval.ms", "15001"),
    ("consumer.assignment.interval.ms", "-1"),
    ("consumer.assignment.interval.ms", "0"),
    ("consumer.assignor.offload.enable", "false"),
    ("share.session.timeout.ms", "1"),
    ("share.session.timeout.ms", "60001"),
    ("share.heartbeat.interval.ms", "1"),
    ("share.heartbeat.interval.ms", "15001"),
    ("share.assignment.interval.ms", "15001"),
    ("share.record.lock.duration.ms", "1"),
    ("share.record.lock.duration.ms", "14999"),
    ("share.record.lock.duration.ms", "60001"),
    ("share.delivery.count.limit", "1"),
    ("share.delivery.count.limit", "11"),
    ("share.partition.max.record.locks", "1"),
    ("share.partition.max.record.locks", "10001"),
    ("share.auto.offset.reset", "x"),
    ("share.auto.offset.reset", "by_duration:PT1H"),
    ("share.isolation.level", "x"),
    ("streams.session.timeout.ms", "1"),
    ("streams.session.timeout.ms", "60001"),
    ("streams.heartbeat.interval.ms", "1"),
    ("streams.heartbeat.interval.ms", "15001"),
    ("streams.num.standby.replicas", "9"),
    ("streams.num.standby.replicas", "-1"),
    ("streams.assignment.interval.ms", "15001"),
    ("streams.initial.rebalance.delay.ms", "-1"),
    ("nope", "1"),
)


def _group_values() -> Iterator[Case]:
    for key, value in _GROUP_VALUES:
        name = f"{key}={value}"
        texts = key != "share.auto.offset.reset"
        request = change(_KNOWN, ops=[(key, SET, value)])
        yield case(f"IncrementalAlterConfigs of a group, {name}", (1, request), texts=texts)
        yield case(f"AlterConfigs of a group, {name}", (2, alter(_KNOWN, **{key: value})), texts=texts)


_STRANGE_OPERATIONS: dict[str, list[tuple[str, int, str | None]]] = {
    "no operations": [],
    "a null value": [("retention.ms", SET, None)],
    "a null to append": [("cleanup.policy", APPEND, None)],
    "a removal with a value": [("retention.ms", REMOVE, "1")],
    "a removal of an unknown key": [("nope", REMOVE, None)],
    "a removal of what is not set": [("retention.ms", REMOVE, None)],
    "an append to a number": [("retention.ms", APPEND, "1")],
    "an append to an unknown key": [("nope", APPEND, "1")],
    "an append of an unknown word": [("cleanup.policy", APPEND, "x")],
    "an append": [("cleanup.policy", APPEND, "compact")],
    "a subtraction": [("cleanup.policy", SUBTRACT, "delete")],
    "a subtraction of what is not there": [("cleanup.policy", SUBTRACT, "compact")],
    "the same key twice": [("retention.ms", SET, "1"), ("retention.ms", SET, "2")],
    "two wrong values": [("retention.ms", SET, "x"), ("segment.ms", SET, "x")],
    "contradicting values": [("min.compaction.lag.ms", SET, "5"), ("max.compaction.lag.ms", SET, "4")],
}

_D = {"results"}
_R = {"responses"}

CASES = (
    *versions("DescribeConfigs of a topic", DESCRIBE, describe(_EVENTS, synonyms=True), unordered={"configs"}),
    *versions(
        "DescribeConfigs of a topic with settings",
        (1, 4),
        describe((TOPIC, "configured"), synonyms=True),
        unordered={"configs"},
    ),
    *versions(
        "DescribeConfigs of some keys",
        (1, 4),
        describe(_EVENTS, keys=["retention.ms", "nope", "segment.ms"]),
        unordered={"configs"},
    ),
    *versions("DescribeConfigs of an empty list of keys", (1, 4), describe(_EVENTS, keys=[]), unordered={"configs"}),
    *versions("DescribeConfigs of a group", DESCRIBE, describe(_KNOWN, synonyms=True), unordered={"configs"}),
    *versions(
        "DescribeConfigs of an unknown group", (4,), describe((GROUP, "unknown"), synonyms=True), unordered={"configs"}
    ),
    *versions(
        "DescribeConfigs of keys of a broker",
        (1, 4),
        describe(_THIS, keys=["log.retention.ms", "num.partitions", "nope"]),
        unordered={"configs"},
    ),
    *versions("DescribeConfigs of all brokers", (1, 4), describe(_ALL), unordered={"configs"}),
    *versions("DescribeConfigs of the same twice", (1, 4), describe(_EVENTS, _EVENTS, keys=["retention.ms"])),
    *versions("DescribeConfigs of unknown resources twice", (1, 4), describe((TOPIC, "unknown"), (TOPIC, "unknown"))),
    *versions(
        "DescribeConfigs of several",
        (4,),
        describe((TOPIC, "unknown"), _EVENTS, (TOPIC, ""), keys=["retention.ms"]),
        unordered=_D,
    ),
    *versions("DescribeConfigs of a subscription", (4,), describe((METRICS, "unknown")), unordered={"configs"}),
    *versions("DescribeConfigs of nothing", DESCRIBE, describe()),
    *_of_no_topics(),
    *versions("AlterConfigs with a null", ALTER, alter(_EVENTS, retention_ms=None)),
    *versions("AlterConfigs of a broker with a null", ALTER, alter(_THIS, log_retention_ms=None)),
    *versions("AlterConfigs of nothing", ALTER, alter()),
    *versions(
        "IncrementalAlterConfigs of the same topic twice",
        INCREMENTAL,
        change(_EVENTS, _EVENTS, ops=[("retention.ms", SET, "5")]),
    ),
    *versions(
        "IncrementalAlterConfigs of the same broker twice",
        INCREMENTAL,
        change(_THIS, _THIS, ops=[("log.retention.ms", SET, "5")]),
    ),
    *versions("IncrementalAlterConfigs of nothing", INCREMENTAL, change(ops=[])),
    *(
        one
        for what, operations in _STRANGE_OPERATIONS.items()
        for one in versions(f"IncrementalAlterConfigs with {what}", (0, 1), change(_EVENTS, ops=operations))
    ),
    *(
        case(f"IncrementalAlterConfigs of a broker with {what}", (1, change(_THIS, ops=operations)))
        for what, operations in _STRANGE_OPERATIONS.items()
    ),
    *(
        case(f"IncrementalAlterConfigs of a group with {what}", (1, change(_KNOWN, ops=operations)))
        for what, operations in _STRANGE_OPERATIONS.items()
    ),
    case("IncrementalAlterConfigs of a broker with an unknown operation", (1, change(_THIS, ops=[("x", 9, "1")]))),
    *_broker_values(),
    *_topic_values(),
    *_group_values(),
    case("ListConfigResources v0", (0, ListConfigResourcesRequest())),
    case("ListConfigResources of brokers", (1, ListConfigResourcesRequest(resource_types=[BROKER]))),
    case("ListConfigResources of loggers", (1, ListConfigResourcesRequest(resource_types=[LOGGER]))),
    case("ListConfigResources of a type twice", (1, ListConfigResourcesRequest(resource_types=[BROKER, BROKER]))),
    case("ListConfigResources of an unknown type", (1, ListConfigResourcesRequest(resource_types=[99]))),
    case("ListConfigResources of type 0", (1, ListConfigResourcesRequest(resource_types=[0]))),
    case("ListConfigResources of groups", (1, ListConfigResourcesRequest(resource_types=[GROUP]))),
    case("ListConfigResources of client metrics", (1, ListConfigResourcesRequest(resource_types=[METRICS]))),
)
