"""Broker keys: topics."""

from ottla.config.checks import OneOf, Range, at_least, between
from ottla.config.definition import Key
from ottla.config.keys.words import BOOLEAN, CLASS, CLUSTER_WIDE, HIGH, INT, LONG, LOW, MEDIUM, SERVED, STRING

# fmt: off
# A table reads better with two or three lines for each key than with one for each argument.
KEYS = (
    Key("auto.create.topics.enable", BOOLEAN, "true", HIGH,
        "Whether the broker creates a missing topic when a client requests its metadata.",
        effect=SERVED),
    Key("num.partitions", INT, "1", MEDIUM,
        "The default number of partitions of a new topic.",
        at_least(1), effect=SERVED),
    Key("default.replication.factor", INT, "1", MEDIUM,
        "The default number of replicas of each partition of a new topic.",
        effect=SERVED),
    Key("delete.topic.enable", BOOLEAN, "true", HIGH,
        "Whether DeleteTopics is allowed.",
        effect=SERVED),
    Key("min.insync.replicas", INT, "1", HIGH,
        "How many in-sync replicas acks=all needs; with fewer, the leader rejects the batch.",
        at_least(1), update=CLUSTER_WIDE, effect=SERVED),
    Key("unclean.leader.election.enable", BOOLEAN, "false", HIGH,
        "Whether a replica that is not in sync may become leader if no other can, which loses records.",
        update=CLUSTER_WIDE, effect=SERVED),
    Key("unclean.leader.election.interval.ms", LONG, "300000", MEDIUM,
        "Time between two rounds in which leaderless partitions may be given an unclean leader.",
        at_least(1), internal=True),
    Key("message.max.bytes", INT, "1048588", HIGH,
        "The largest record batch that a topic accepts, unless the topic sets max.message.bytes.",
        at_least(0), update=CLUSTER_WIDE, effect=SERVED),
    Key("compression.type", STRING, "producer", HIGH,
        "The codec of stored batches: a fixed codec, uncompressed, or producer to keep the producer's codec.",
        OneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"), update=CLUSTER_WIDE, effect=SERVED),
    Key("compression.gzip.level", INT, "-1", MEDIUM,
        "The gzip level for batches that the broker recompresses.",
        Range(1, 9, also=-1), update=CLUSTER_WIDE, effect=SERVED),
    Key("compression.lz4.level", INT, "9", MEDIUM,
        "The lz4 level for batches that the broker recompresses.",
        between(1, 17), update=CLUSTER_WIDE, effect=SERVED),
    Key("compression.zstd.level", INT, "3", MEDIUM,
        "The zstd level for batches that the broker recompresses.",
        between(-131_072, 22), update=CLUSTER_WIDE, effect=SERVED),
    Key("create.topic.policy.class.name", CLASS, None, LOW,
        "A plug-in that may refuse new topics."),
    Key("alter.config.policy.class.name", CLASS, None, LOW,
        "A plug-in that may refuse config changes."),
)
# fmt: on
