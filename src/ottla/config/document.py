"""Prints docs/configuration.md from the table: `python -m ottla.config.document`."""

import sys
from collections.abc import Iterable, Iterator

from ottla.config.definition import Effect, Key
from ottla.config.keys import BROKER_KEYS, BROKER_SUBJECTS, CLIENT_METRICS_KEYS, GROUP_KEYS, TOPIC_KEYS

_INTRODUCTION = """\
# Configuration

This page is generated from the table in `ottla.config.keys`; `make docs` writes it anew.

Ottla knows every key of Apache Kafka 4.3, by Kafka's own name, and the keys of the ZooKeeper days that it still uses. A
`server.properties` written for Kafka is accepted unchanged; a key that is not on this page is reported and passed over.

**Where a value comes from**, strongest first: what `IncrementalAlterConfigs` set for this broker, what it set for all
brokers, `--set key=value` on the command line, the environment, `server.properties`, the default. In the environment
`KAFKA_LOG_RETENTION_HOURS` is `log.retention.hours`: a dot is written as `_`, an underscore as `__`, a hyphen as `___`;
the prefix `KAFKA_CFG_` works as well.

**In Ottla** says what becomes of a key. *Served*: Ottla acts on it. *Described*: Ottla accepts it and shows it to
tools, but nothing depends on it.

**At run time** says whether a broker key can change without a restart: not at all, for one broker, or also for all
brokers at once. Keys of topics, groups and client metrics can always change.
"""

_TOPIC_INTRODUCTION = """\
## Topic keys

Set when a topic is created or at any time later. A topic without a value of its own follows the broker key beside it.
"""

_GROUP_INTRODUCTION = """\
## Group keys

Set at any time for one group. A group without a value of its own follows the broker key beside it.
"""

_CLIENT_METRICS_INTRODUCTION = """\
## Client metrics keys

Set at any time for one subscription (KIP-714).
"""

_DIFFERENCES_INTRODUCTION = """\
## Defaults that differ from Kafka's

One small node is the common case, so these defaults suit it; a file that sets them is obeyed.
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
