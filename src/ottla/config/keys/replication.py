"""Broker keys: replication."""

from ottla.config.checks import at_least
from ottla.config.definition import Key
from ottla.config.keys.words import BOOLEAN, CLUSTER_WIDE, HIGH, INT, LONG, MEDIUM, SERVED, STRING

# fmt: off
# A table reads better with two or three lines for each key than with one for each argument.
KEYS = (
    Key("replica.lag.time.max.ms", LONG, "30000", HIGH,
        "A follower that has not caught up for this long leaves the in-sync replicas.",
        effect=SERVED),
    Key("replica.fetch.wait.max.ms", INT, "500", HIGH,
        "How long a leader may hold a follower's fetch while there are no new records.",
        effect=SERVED),
    Key("replica.fetch.min.bytes", INT, "1", HIGH,
        "How many bytes a follower's fetch waits for.",
        effect=SERVED),
    Key("replica.fetch.max.bytes", INT, "1048576", MEDIUM,
        "How many bytes of one partition a follower asks for at a time.",
        at_least(0), effect=SERVED),
    Key("replica.fetch.response.max.bytes", INT, "10485760", MEDIUM,
        "How many bytes a follower asks for in one fetch.",
        at_least(0), effect=SERVED),
    Key("replica.fetch.backoff.ms", INT, "1000", MEDIUM,
        "The pause of a follower after a failed fetch.",
        at_least(0)),
    Key("replica.socket.timeout.ms", INT, "30000", HIGH,
        "How long a follower waits for a leader's answer.",
        effect=SERVED),
    Key("replica.socket.receive.buffer.bytes", INT, "65536", HIGH,
        "The kernel's receive buffer for replication."),
    Key("replica.high.watermark.checkpoint.interval.ms", LONG, "5000", HIGH,
        "Time between two writes of the high-watermark checkpoint.",
        effect=SERVED),
    Key("replica.selector.class", STRING, None, MEDIUM,
        "Selects the replica for consumers with a rack: one in the same rack, or the leader if unset.",
        effect=SERVED),
    Key("num.replica.fetchers", INT, "1", HIGH,
        "Connections to each other broker for replication.",
        at_least(1), update=CLUSTER_WIDE),
    Key("num.replica.alter.log.dirs.threads", INT, None, HIGH,
        "Threads that move partitions between directories; unset means one for each directory."),
    Key("auto.leader.rebalance.enable", BOOLEAN, "true", HIGH,
        "Whether the controller restores preferred leaders, soon after they return and at regular checks.",
        effect=SERVED),
    Key("leader.imbalance.check.interval.seconds", LONG, "300", HIGH,
        "Time between two regular checks for partitions that their preferred replica does not lead.",
        at_least(1), effect=SERVED),
    Key("follower.fetch.last.tiered.offset.enable", BOOLEAN, "false", MEDIUM,
        "Whether a new follower starts where tiered storage ends instead of at the start of the leader's disk.",
        update=CLUSTER_WIDE),
)
# fmt: on
