"""The options of the sink."""

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.client.client import ClientSettings
from ottla.spark.options import OptionError, ReadOptions, bootstrap_servers, split_options

AT_LEAST_ONCE = "at-least-once"
EXACTLY_ONCE = "exactly-once"

_NAMES = ("topic", "includeHeaders", "delivery", "queryId", "batchId")
_SPARKS_OWN = ("checkpointLocation", "queryName", "asyncProgressTrackingEnabled", "path")
"""Options that Spark itself reads and passes to every sink."""

_BY_LOWER_NAME = {name.lower(): name for name in (*_NAMES, *_SPARKS_OWN)}

_MANAGED = {
    "key.serializer": "keys are strings or bytes: convert them with DataFrame functions",
    "value.serializer": "values are strings or bytes: convert them with DataFrame functions",
    "transactional.id": "set delivery to exactly-once: every task then has its own id",
}
_DEFAULTS = {
    "client.id": "ottla-spark",
    "enable.idempotence": "true",
    "partitioner": "murmur2_random",
    "queue.buffering.max.messages": "1000000",
}
"""Retries must neither duplicate nor reorder records. Keys map to the same partitions as in Kafka's producer."""

_TRANSACTION_TIMEOUT = "600000"


@dataclass(frozen=True, slots=True)
class SinkOptions:
    producer: Mapping[str, str]
    """The settings of the producer, by librdkafka's names. Most of them are Kafka's names."""
    topic: str | None
    """Takes precedence over the column `topic`."""
    exactly_once: bool
    batch: tuple[str, int] | None
    """The batch that the program writes and may write again: query id and batch number."""
    read: ReadOptions
    """Client options for the requests that a task sends before it writes."""


def parse_sink_options(given: Mapping[str, str]) -> SinkOptions:
    """Raises OptionError."""
    options, kafka = split_options(given, _BY_LOWER_NAME, "sink")
    for name in kafka:
        if name in _MANAGED:
            raise OptionError(f"kafka.{name} cannot be set: {_MANAGED[name]}")
    delivery = options.get("delivery", AT_LEAST_ONCE).strip().lower()
    if delivery not in (AT_LEAST_ONCE, EXACTLY_ONCE):
        raise OptionError(f"delivery must be {AT_LEAST_ONCE} or {EXACTLY_ONCE}, not {delivery!r}")
    bootstrap = bootstrap_servers(kafka)
    producer = {**_DEFAULTS, **kafka}
    if delivery == EXACTLY_ONCE:
        producer.setdefault("transaction.timeout.ms", _TRANSACTION_TIMEOUT)
    return SinkOptions(
        producer=producer,
        topic=options.get("topic"),
        exactly_once=delivery == EXACTLY_ONCE,
        batch=_batch(options, exactly_once=delivery == EXACTLY_ONCE),
        read=ReadOptions(bootstrap, ClientSettings(client_id=producer["client.id"])),
    )


def _batch(options: Mapping[str, str], *, exactly_once: bool) -> tuple[str, int] | None:
    query_id, batch_id = (options.get(name, "").strip() for name in ("queryId", "batchId"))
    if not query_id and not batch_id:
        return None
    if not query_id or not batch_id:
        raise OptionError("queryId and batchId must be set together: they identify the batch that is written")
    if not exactly_once:
        raise OptionError(
            f"queryId and batchId are only for delivery={EXACTLY_ONCE}, which skips a batch that is in the log"
        )
    if not batch_id.isdecimal() or int(batch_id) >= 2**63 - 1:
        raise OptionError(f"batchId must be a number, not {batch_id!r}")
    return query_id, int(batch_id)
