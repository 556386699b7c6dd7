"""The options of the source, with the names and the meaning of Spark's Kafka source.

Names are case-insensitive, as everywhere in Spark. In Spark's source, options with the prefix `kafka.` are settings of
the Java consumer. Here, settings that Ottla's client has are used, settings that only tune the Java consumer are
accepted without effect, and all others are rejected: an error is better than a silently ignored setting.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.client.client import ClientSettings, parse_bootstrap
from ottla.client.fetch import FetchSettings
from ottla.client.offsets import READ_COMMITTED, READ_UNCOMMITTED
from ottla.env.network import Address
from ottla.spark.bounds import EARLIEST, LATEST, Bound, BoundError, parse_bound
from ottla.spark.durations import parse_duration
from ottla.spark.selection import Selection, parse_selection

_NAMES = (
    "assign",
    "subscribe",
    "subscribePattern",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "failOnDataLoss",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "includeHeaders",
    "groupId",
    "kafkaConsumer.pollTimeoutMs",
)
_JAVA_OPTIONS = (
    "groupIdPrefix",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "partition.metadata.cache.ttl.ms",
)
"""Options for the Java consumer of Spark's source. Accepted without effect, so that programs need no change."""

_BY_LOWER_NAME = {name.lower(): name for name in (*_NAMES, *_JAVA_OPTIONS)}
KAFKA_PREFIX = "kafka."

_MANAGED = {
    "auto.offset.reset": "set startingOffsets to earliest or latest: the query stores its own offsets",
    "key.deserializer": "keys are bytes: convert them with DataFrame functions",
    "value.deserializer": "values are bytes: convert them with DataFrame functions",
    "enable.auto.commit": "set groupId to commit offsets after each micro-batch",
    "interceptor.classes": "there is no Java consumer that could run them",
}
_JAVA_TUNING = frozenset(
    {
        "allow.auto.create.topics",
        "auto.commit.interval.ms",
        "check.crcs",
        "client.dns.lookup",
        "client.rack",
        "connections.max.idle.ms",
        "enable.metrics.push",
        "exclude.internal.topics",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "max.poll.interval.ms",
        "max.poll.records",
        "metadata.max.age.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partition.assignment.strategy",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retry.backoff.max.ms",
        "send.buffer.bytes",
        "session.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
    }
)
"""Settings of the Java consumer that Ottla's client does not need: it has no poll loop and no group membership, and it
always checks checksums."""

_ISOLATION = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}
_DEFAULT_POLL_TIMEOUT = 120.0
"""Spark's default, the value of `spark.network.timeout`."""
_DEFAULT_TRIGGER_DELAY = 15 * 60.0


class OptionError(ValueError):
    """An invalid option. The message is for the author of the query."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options that a task needs to read its range."""

    bootstrap: tuple[Address, ...]
    client: ClientSettings = field(default_factory=ClientSettings)
    fetch: FetchSettings = field(default_factory=FetchSettings)
    include_headers: bool = False
    fail_on_data_loss: bool = True
    poll_timeout: float = _DEFAULT_POLL_TIMEOUT


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options that planning a query needs."""

    read: ReadOptions
    selection: Selection
    start: Bound
    end: Bound
    min_partitions: int | None
    max_records_per_partition: int | None
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay: float
    group_id: str | None


def parse_source_options(given: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Parse the options of a batch or streaming source. Raises OptionError."""
    options, kafka = split_options(given, _BY_LOWER_NAME, "source")
    minimum = _positive(options, "minOffsetsPerTrigger")
    maximum = _positive(options, "maxOffsetsPerTrigger")
    if minimum is not None and maximum is not None and minimum > maximum:
        raise OptionError(f"minOffsetsPerTrigger ({minimum}) must not be larger than maxOffsetsPerTrigger ({maximum})")
    start, end = _bounds(options, streaming=streaming)
    try:
        selection = parse_selection(options)
        delay = options.get("maxTriggerDelay")
        max_delay = _DEFAULT_TRIGGER_DELAY if delay is None else parse_duration(delay)
    except ValueError as error:
        raise OptionError(str(error)) from None
    return SourceOptions(
        read=_read_options(options, kafka),
        selection=selection,
        start=start,
        end=end,
        min_partitions=_positive(options, "minPartitions"),
        max_records_per_partition=_positive(options, "maxRecordsPerPartition"),
        max_offsets_per_trigger=maximum,
        min_offsets_per_trigger=minimum,
        max_trigger_delay=max_delay,
        group_id=options.get("groupId") or None,
    )


def split_options(
    given: Mapping[str, str], known: Mapping[str, str], what: str
) -> tuple[dict[str, str], dict[str, str]]:
    """The options by canonical name, and the Kafka settings without their prefix. Raises OptionError."""
    options: dict[str, str] = {}
    kafka: dict[str, str] = {}
    for key, value in given.items():
        lower = key.lower()
        if lower.startswith(KAFKA_PREFIX):
            kafka[lower.removeprefix(KAFKA_PREFIX)] = value
        elif lower in known:
            options[known[lower]] = value
        else:
            names = ", ".join(sorted(known.values()))
            raise OptionError(
                f"the ottla {what} has no option {key!r}; valid options are kafka.bootstrap.servers, {names}"
            )
    return options, kafka


def bootstrap_servers(kafka: Mapping[str, str]) -> tuple[Address, ...]:
    servers = kafka.get("bootstrap.servers")
    if not servers:
        raise OptionError("the option kafka.bootstrap.servers must be set: host:port of one or more brokers")
    try:
        return tuple(parse_bootstrap(servers))
    except ValueError as error:
        raise OptionError(str(error)) from None


def isolation_level(text: str | None) -> int:
    """The protocol's number for the value of `kafka.isolation.level`."""
    level = "read_uncommitted" if text is None else text.strip().lower()
    if level not in _ISOLATION:
        raise OptionError(f"kafka.isolation.level must be read_uncommitted or read_committed, not {level!r}")
    return _ISOLATION[level]


def _bounds(options: Mapping[str, str], *, streaming: bool) -> tuple[Bound, Bound]:
    try:
        start = parse_bound(options, "starting", default=LATEST if streaming else EARLIEST)
        ends = [name for name in options if name.startswith("ending")]
        if streaming and ends:
            raise OptionError(f"{ends[0]} is only for batch queries; a stream has no end")
        end = parse_bound(options, "ending", default=LATEST)
    except BoundError as error:
        raise OptionError(str(error)) from None
    if not streaming and start.is_latest:
        raise OptionError("startingOffsets cannot be latest in a batch query: the query would read nothing")
    if end.is_earliest:
        raise OptionError("endingOffsets cannot be earliest: the query would read nothing")
    return start, end


def _read_options(options: Mapping[str, str], kafka: Mapping[str, str]) -> ReadOptions:
    for name in kafka:
        if name in _MANAGED:
            raise OptionError(f"kafka.{name} cannot be set: {_MANAGED[name]}")
    values = _KafkaValues(dict(kafka))
    protocol = values.take("security.protocol", "PLAINTEXT").upper()
    if protocol != "PLAINTEXT":
        raise OptionError(f"kafka.security.protocol {protocol} is not supported; only PLAINTEXT is")
    level = isolation_level(values.take("isolation.level", "read_uncommitted"))
    client, fetch = ClientSettings(), FetchSettings()
    result = ReadOptions(
        bootstrap=bootstrap_servers(kafka),
        client=ClientSettings(
            client_id=values.take("client.id", "ottla-spark"),
            connect_timeout=values.seconds("socket.connection.setup.timeout.ms", client.connect_timeout),
            request_timeout=values.seconds("request.timeout.ms", client.request_timeout),
            retry_timeout=values.seconds("default.api.timeout.ms", client.retry_timeout),
            retry_backoff=values.seconds("retry.backoff.ms", client.retry_backoff),
        ),
        fetch=FetchSettings(
            isolation=level,
            max_bytes=min(
                values.number("max.partition.fetch.bytes", fetch.max_bytes),
                values.number("fetch.max.bytes", 2**31 - 1),
            ),
            max_wait_ms=values.number("fetch.max.wait.ms", fetch.max_wait_ms),
            min_bytes=values.number("fetch.min.bytes", fetch.min_bytes),
        ),
        include_headers=boolean(options, "includeHeaders", default=False),
        fail_on_data_loss=boolean(options, "failOnDataLoss", default=True),
        poll_timeout=_poll_timeout(options),
    )
    values.refuse_rest()
    return result


def _poll_timeout(options: Mapping[str, str]) -> float:
    milliseconds = _positive(options, "kafkaConsumer.pollTimeoutMs")
    return _DEFAULT_POLL_TIMEOUT if milliseconds is None else milliseconds / 1000


class _KafkaValues:
    """Settings with the prefix `kafka.`. Each lookup removes one, so the settings left at the end are unknown."""

    def __init__(self, values: dict[str, str]) -> None:
        self._values = values
        values.pop("bootstrap.servers", None)

    def take(self, name: str, default: str) -> str:
        return self._values.pop(name, default).strip()

    def number(self, name: str, default: int) -> int:
        text = self.take(name, str(default))
        if not text.isdecimal() or int(text) >= 2**31:
            raise OptionError(f"kafka.{name} must be a number, not {text!r}")
        return int(text)

    def seconds(self, name: str, default: float) -> float:
        return self.number(name, int(default * 1000)) / 1000

    def refuse_rest(self) -> None:
        unknown = sorted(self._values.keys() - _JAVA_TUNING)
        if unknown:
            raise OptionError(f"the ottla source does not know kafka.{unknown[0]}")


def _positive(options: Mapping[str, Any], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not re.fullmatch(r"\s*[0-9]+\s*", text) or int(text) == 0:
        raise OptionError(f"{name} must be a positive number, not {text!r}")
    return int(text)


def boolean(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = options.get(name)
    if text is None:
        return default
    if text.strip().lower() not in ("true", "false"):
        raise OptionError(f"{name} must be true or false, not {text!r}")
    return text.strip().lower() == "true"
