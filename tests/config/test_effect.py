"""Keys marked as served are those that the broker reads: the mark is compared with the source, in both directions."""

import ast
from functools import cache
from pathlib import Path

import pytest

from ottla.config.definition import Effect, Key
from ottla.config.keys import BROKER_KEYS, CLIENT_METRICS_KEYS, GROUP_KEYS, TOPIC_KEYS
from ottla.config.synonyms import FALLBACKS

SOURCE = Path(__file__).parents[2] / "src" / "ottla"
BROKER_PACKAGES = [
    *("server", "handlers", "coordinator", "controller", "metadata", "replication", "cluster", "groups", "txn"),
    *("log", "store", "coordinator_core", "env"),
]
"""The packages of a broker process. Command line, Spark and pipelines have settings with the same names."""
BROKER_FILES = ["config/listeners.py", "config/connections.py"]
"""Parts of `config` that turn keys into what a broker does. The rest of it parses, checks and describes every key."""
TOPIC_SETTINGS = "config/topic.py"


@cache
def nodes_of_the_broker() -> list[ast.AST]:
    packages = (path for package in BROKER_PACKAGES for path in (SOURCE / package).rglob("*.py"))
    files = [*packages, *(SOURCE / name for name in BROKER_FILES)]
    return [node for path in files for node in ast.walk(ast.parse(path.read_text()))]


@cache
def read_names() -> set[str]:
    """Strings in the source, and those that an f-string makes of one of them and a constant end."""
    nodes = nodes_of_the_broker()
    strings = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    parts = [node.values[-1] for node in nodes if isinstance(node, ast.JoinedStr)]
    ends = {part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)}
    return strings | {string + end for string in strings for end in ends if end.startswith(".")}


def read_topic_attributes() -> set[str]:
    """Attributes that the broker reads, and those from which `TopicConfig` derives others."""
    broker = {node.attr for node in nodes_of_the_broker() if isinstance(node, ast.Attribute)}
    settings = ast.walk(ast.parse((SOURCE / TOPIC_SETTINGS).read_text()))
    derived_from = {
        node.attr
        for node in settings
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Load)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }
    return broker | derived_from


def read_topic_keys() -> set[str]:
    attributes = read_topic_attributes() | read_names()  # The compression levels are read by getattr.
    names = {name for name in TOPIC_KEYS if name.replace(".", "_") in attributes}
    # The one key without an attribute of its own: it replaces the value of segment.bytes.
    return names | {"internal.segment.bytes"}


def read_broker_keys() -> set[str]:
    topic_keys = read_topic_keys()
    names = read_names() & BROKER_KEYS.keys()
    names |= {str(key.server_key) for key in TOPIC_KEYS.values() if key.name in topic_keys and key.server_key}
    for name, sources in FALLBACKS.items():
        if name in names:
            names |= {source for source, _ in sources}
    return names


def served(keys: dict[str, Key]) -> set[str]:
    return {key.name for key in keys.values() if key.effect is Effect.SERVED}


@pytest.mark.parametrize("kind", ["broker", "topic"])
def test_a_key_is_served_if_and_only_if_the_broker_reads_it(kind: str) -> None:
    keys, read = (BROKER_KEYS, read_broker_keys()) if kind == "broker" else (TOPIC_KEYS, read_topic_keys())
    assert read - served(keys) == set(), "read by the broker, but marked as described only"
    assert served(keys) - read == set(), "marked as served, but never read"


def test_keys_of_groups_and_client_metrics_have_no_effect() -> None:
    names = read_names()
    assert served(GROUP_KEYS) == GROUP_KEYS.keys() & names == set()
    assert served(CLIENT_METRICS_KEYS) == set()


def test_the_search_finds_what_is_known_to_be_read() -> None:
    assert {"replica.lag.time.max.ms", "min.insync.replicas", "replication.quota.window.num"} <= read_broker_keys()
    assert {"num.io.threads", "log.cleaner.threads"}.isdisjoint(read_broker_keys())
    assert "preallocate" not in read_topic_keys()
