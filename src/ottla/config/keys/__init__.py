"""All config keys, by the kind of resource."""

from ottla.config.definition import Key
from ottla.config.keys import (
    client_metrics,
    group,
    groups,
    log,
    metrics,
    node,
    quorum,
    quotas,
    replication,
    sasl,
    share_groups,
    ssl,
    tiered,
    topic,
    topics,
    transactions,
    zookeeper,
)

BROKER_SUBJECTS: tuple[tuple[str, tuple[Key, ...]], ...] = (
    ("Node, listeners and connections", node.KEYS),
    ("Topics", topics.KEYS),
    ("The log", log.KEYS),
    ("Consumer groups and offsets", groups.KEYS),
    ("Share groups and streams groups", share_groups.KEYS),
    ("Producers and transactions", transactions.KEYS),
    ("Replication", replication.KEYS),
    ("ZooKeeper", zookeeper.KEYS),
    ("Quotas and throttles", quotas.KEYS),
    ("Metrics", metrics.KEYS),
    ("TLS", ssl.KEYS),
    ("Logins, tokens and authorization", sasl.KEYS),
    ("Tiered storage", tiered.KEYS),
    ("KRaft and metadata (Ottla coordinates through its store instead)", quorum.KEYS),
)
"""Broker keys in the order of the reference page."""

BROKER_KEYS: dict[str, Key] = {key.name: key for _, keys in BROKER_SUBJECTS for key in keys}
TOPIC_KEYS: dict[str, Key] = {key.name: key for key in topic.KEYS}
GROUP_KEYS: dict[str, Key] = {key.name: key for key in group.KEYS}
CLIENT_METRICS_KEYS: dict[str, Key] = {key.name: key for key in client_metrics.KEYS}
