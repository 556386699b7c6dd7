"""Prints docs/configuration.md from the table."""

import sys
from collections.abc import Iterable, Iterator

from ottla.config.definition import Effect, Key
from ottla.config.keys import BROKER_KEYS, BROKER_SUBJECTS, CLIENT_METRICS_KEYS, GROUP_KEYS, TOPIC_KEYS

_INTRODUCTION = """\
# Configuration

`make docs` generates this page from the table in `ottla.config.keys`.

Ottla accepts every key of Apache Kafka 4.3, with Kafka's name, and the ZooKeeper keys of earlier versions that it still
uses. A `server.properties` file of Kafka works unchanged. The broker logs a warning for a key that is not on this page,
and ignores it.

**Precedence of values**, highest first: values that `IncrementalAlterConfigs` set for this broker, values that it set
for all brokers, `--set key=value` on the command line, the environment, `server.properties`, the default. In the
environment `KAFKA_LOG_RETENTION_HOURS` is `log.retention.hours`: write a dot as `_`, an underscore as `__`, and a
hyphen as `___`. The prefix `KAFKA_CFG_` works as well.

**In Ottla** tells whether a key has an effect. *Served*: it has. *Described*: Ottla accepts the key and shows it to
tools, but it has no effect.

**At run time** tells whether a broker key can change without a restart: not at all, for one broker, or also for all
brokers at once. Keys of topics, groups and client metrics can always change.
"""

_TOPIC_INTRODUCTION = """\
## Topic keys

Set them when a topic is created, or at any time later. A topic without its own value has the value of the broker key.
"""

_GROUP_INTRODUCTION = """\
## Group keys

Set them at any time for one group. A group without its own value has the value of the broker key.
"""

_CLIENT_METRICS_INTRODUCTION = """\
## Client metrics keys

Set them at any time for one subscription (KIP-714).
"""

_DIFFERENCES_INTRODUCTION = """\
## Defaults that differ from Kafka's

These defaults suit a single small node, which is the common case. Set the keys to override them.
"""


def document() -> str:
    """The whole page."""
    return "\n".join([*_introduction(), *_broker_tables(), *_resource_tables()]) + "\n"


def _introduction() -> Iterator[str]:
    yield _INTRODUCTION
    yield _DIFFERENCES_INTRODUCTION
    changed = [key for key in BROKER_KEYS.values() if key.default != key.kafka_default]
    rows = ((_code(key.name), _default(key.default), _default(key.kafka_default)) for key in changed)
    yield from _table(("Key", "Ottla", "Kafka"), rows)


def _broker_tables() -> Iterator[str]:
    yield "## Broker keys\n"
    for subject, keys in BROKER_SUBJECTS:
        yield f"### {subject}\n"
        rows = (
            (_code(key.name), _type(key), _default(key.default), key.update.value, _effect(key), _meaning(key))
            for key in keys
        )
        yield from _table(("Key", "Type", "Default", "At run time", "In Ottla", "Meaning"), rows)


def _resource_tables() -> Iterator[str]:
    for introduction, keys in ((_TOPIC_INTRODUCTION, TOPIC_KEYS), (_GROUP_INTRODUCTION, GROUP_KEYS)):
        yield introduction
        rows = (
            (
                _code(key.name),
                _type(key),
                _default(key.default),
                _code(key.server_key) if key.server_key is not None else "",
                _effect(key),
                _meaning(key),
            )
            for key in keys.values()
        )
        yield from _table(("Key", "Type", "Default", "Broker key", "In Ottla", "Meaning"), rows)
    yield _CLIENT_METRICS_INTRODUCTION
    yield from _table(
        ("Key", "Type", "Default", "In Ottla", "Meaning"),
        (
            (_code(key.name), _type(key), _default(key.default), _effect(key), _meaning(key))
            for key in CLIENT_METRICS_KEYS.values()
        ),
    )


def _table(titles: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(titles)} |"
    yield f"|{'---|' * len(titles)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def _code(text: str) -> str:
    return f"`{text}`"


def _type(key: Key) -> str:
    return key.kind.name.lower()


def _default(text: str | None) -> str:
    if text is None:
        return "unset"
    return _code(text) if text else "empty"


def _effect(key: Key) -> str:
    return "**served**" if key.effect is Effect.SERVED else "described"


def _meaning(key: Key) -> str:
    allowed = key.check.describe() if key.check is not None else ""
    return f"{key.doc} Allowed: {allowed}." if allowed else key.doc


if __name__ == "__main__":
    sys.stdout.write(document())
