"""The options of the sink."""

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.client.client import ClientSettings
from ottla.spark.options import OptionError, ReadOptions, bootstrap_servers, split_options

AT_LEAST_ONCE = "at-least-once"
EXACTLY_ONCE = "exactly-once"

_NAMES = ("topic", "includeHeaders", "delivery", "queryId", "batchId")
_SPARKS_OWN = ("checkpointLocation", "queryName", "asyncProgressTrackingEnabled", "path")
"""What Spark reads itself and hands on to every sink."""

_BY_LOWER_NAME = {name.lower(): name for name in (*_NAMES, *_SPARKS_OWN)}

_MANAGED = {
    "key.serializer": "keys are strings or bytes: turn them into that with DataFrame functions",
    "value.serializer": "values are strings or bytes: turn them into that with DataFrame functions",
    "transactional.id": "set delivery to exactly-once: every task has an id of its own",
}
_DEFAULTS = {
    "client.id": "ottla-spark",
    "enable.idempotence": "true",
    "partitioner": "murmur2_random",
    "queue.buffering.max.messages": "1000000",
}
"""Retries must neither double nor reorder; keys go where Kafka's own producer sends them."""

_TRANSACTION_TIMEOUT = "600000"


@dataclass(frozen=True, slots=True)
class SinkOptions:
    producer: Mapping[str, str]
    """The settings of the producer, by librdkafka's names, most of which are Kafka's."""
    topic: str | None
    """Wins over a column of that name."""
    exactly_once: bool
    batch: tuple[str, int] | None
    """What the program calls a batch that it may write again: the id of a query, and the number of the batch in it."""
    read: ReadOptions
    """For the questions that a task asks before it writes."""


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
        raise OptionError("queryId and batchId go together: they say which batch of which query is written")
    if not exactly_once:
        raise OptionError(f"queryId and batchId are for delivery={EXACTLY_ONCE}, which tells a batch that comes again")
    if not batch_id.isdecimal() or int(batch_id) >= 2**63 - 1:
        raise OptionError(f"batchId must be a number, not {batch_id!r}")
    return query_id, int(batch_id)
