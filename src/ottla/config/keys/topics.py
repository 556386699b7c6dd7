"""Broker keys: topics."""

from ottla.config.checks import OneOf, Range, at_least, between
from ottla.config.definition import Key
from ottla.config.keys.words import BOOLEAN, CLASS, CLUSTER_WIDE, HIGH, INT, LONG, LOW, MEDIUM, SERVED, STRING

# fmt: off
# A table reads better with two or three lines for each key than with one for each argument.
KEYS = (
    Key("auto.create.topics.enable", BOOLEAN, "true", HIGH,
        "Whether the broker creates a topic that does not exist when a client asks for it.",
        effect=SERVED),
    Key("num.partitions", INT, "1", MEDIUM,
        "Partitions of a topic when its creator does not say how many.",
        at_least(1), effect=SERVED),
    Key("default.replication.factor", INT, "1", MEDIUM,
        "Replicas of each partition when the topic's creator does not say how many.",
        effect=SERVED),
    Key("delete.topic.enable", BOOLEAN, "true", HIGH,
        "Whether DeleteTopics is allowed.",
        effect=SERVED),
    Key("min.insync.replicas", INT, "1", HIGH,
        "How many replicas must have a batch before acks=all is answered; fewer in sync refuse the write.",
        at_least(1), update=CLUSTER_WIDE, effect=SERVED),
    Key("unclean.leader.election.enable", BOOLEAN, "false", HIGH,
        "Whether a replica that is behind may lead when no other is left, losing records.",
        update=CLUSTER_WIDE, effect=SERVED),
    Key("unclean.leader.election.interval.ms", LONG, "300000", MEDIUM,
        "Time between two rounds in which leaderless partitions may be given an unclean leader.",
        at_least(1), internal=True),
    Key("message.max.bytes", INT, "1048588", HIGH,
        "The largest record batch a topic accepts, unless the topic says otherwise.",
        at_least(0), update=CLUSTER_WIDE, effect=SERVED),
    Key("compression.type", STRING, "producer", HIGH,
        "The codec batches are stored with: a fixed one, uncompressed, or producer to keep what was sent.",
        OneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"), update=CLUSTER_WIDE, effect=SERVED),
    Key("compression.gzip.level", INT, "-1", MEDIUM,
        "Effort of gzip, when batches are recompressed with it.",
        Range(1, 9, also=-1), update=CLUSTER_WIDE, effect=SERVED),
    Key("compression.lz4.level", INT, "9", MEDIUM,
        "Effort of lz4, when batches are recompressed with it.",
        between(1, 17), update=CLUSTER_WIDE, effect=SERVED),
    Key("compression.zstd.level", INT, "3", MEDIUM,
        "Effort of zstd, when batches are recompressed with it.",
        between(-131_072, 22), update=CLUSTER_WIDE, effect=SERVED),
    Key("create.topic.policy.class.name", CLASS, None, LOW,
        "A plug-in that may refuse new topics."),
    Key("alter.config.policy.class.name", CLASS, None, LOW,
        "A plug-in that may refuse config changes."),
)
# fmt: on
