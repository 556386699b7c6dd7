"""Broker keys: quotas and throttles."""

from ottla.config.checks import at_least
from ottla.config.definition import Key
from ottla.config.keys.words import CLASS, CLUSTER_WIDE, INT, LONG, LOW, MEDIUM, SERVED

# fmt: off
# A table reads better with two or three lines for each key than with one for each argument.
KEYS = (
    Key("quota.window.num", INT, "11", LOW,
        "How many samples are kept to measure client quotas.",
        at_least(1)),
    Key("quota.window.size.seconds", INT, "1", LOW,
        "The length of one sample for client quotas.",
        at_least(1)),
    Key("controller.quota.window.num", INT, "11", LOW,
        "How many samples are kept to measure the quota on topic changes.",
        at_least(1)),
    Key("controller.quota.window.size.seconds", INT, "1", LOW,
        "The length of one sample for the quota on topic changes.",
        at_least(1)),
    Key("replication.quota.window.num", INT, "11", LOW,
        "How many samples are kept to measure the replication throttle.",
        at_least(1), effect=SERVED),
    Key("replication.quota.window.size.seconds", INT, "1", LOW,
        "The length of one sample for the replication throttle.",
        at_least(1), effect=SERVED),
    Key("alter.log.dirs.replication.quota.window.num", INT, "11", LOW,
        "How many samples are kept to measure moves between directories.",
        at_least(1), effect=SERVED),
    Key("alter.log.dirs.replication.quota.window.size.seconds", INT, "1", LOW,
        "The length of one sample for moves between directories.",
        at_least(1), effect=SERVED),
    Key("client.quota.callback.class", CLASS, None, LOW,
        "A plug-in that decides client quotas."),
    Key("leader.replication.throttled.rate", LONG, None, MEDIUM,
        "The most bytes per second that leaders send to throttled replicas; unset for no limit.",
        at_least(0), update=CLUSTER_WIDE, effect=SERVED, internal=True),
    Key("follower.replication.throttled.rate", LONG, None, MEDIUM,
        "The most bytes per second that followers fetch for throttled replicas; unset for no limit.",
        at_least(0), update=CLUSTER_WIDE, effect=SERVED, internal=True),
    Key("replica.alter.log.dirs.io.max.bytes.per.second", LONG, None, MEDIUM,
        "The most bytes per second of moves between directories; unset for no limit.",
        at_least(0), update=CLUSTER_WIDE, effect=SERVED, internal=True),
)
# fmt: on
