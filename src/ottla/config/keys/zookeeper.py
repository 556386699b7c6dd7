"""Broker keys: ZooKeeper."""

from ottla.config.checks import at_least
from ottla.config.definition import Key
from ottla.config.keys.words import BOOLEAN, HIGH, INT, MEDIUM, PASSWORD, SERVED, STRING

# fmt: off
# A table reads better with two or three lines for each key than with one for each argument.
KEYS = (
    Key("store.file", STRING, None, HIGH,
        "Ottla only: a file that brokers on one machine share to form a cluster; unset means a single broker.",
        effect=SERVED),
    Key("zookeeper.connect", STRING, None, HIGH,
        "The ZooKeeper servers as host:port,host:port/chroot; unset keeps coordination in a local file.",
        effect=SERVED),
    Key("zookeeper.session.timeout.ms", INT, "18000", HIGH,
        "The session of a broker expires after this time without a heartbeat; also with store.file.",
        at_least(1), effect=SERVED),
    Key("zookeeper.connection.timeout.ms", INT, None, HIGH,
        "How long the start, and later each change, waits for ZooKeeper; unset: zookeeper.session.timeout.ms.",
        at_least(1), effect=SERVED),
    Key("zookeeper.auth.digest", PASSWORD, None, MEDIUM,
        "Ottla only: user:password for ZooKeeper's digest scheme, where Kafka reads a JAAS file.",
        effect=SERVED),
    Key("zookeeper.max.in.flight.requests", INT, "10", HIGH,
        "How many requests to ZooKeeper may be unanswered at once.",
        at_least(1)),
    Key("zookeeper.set.acl", BOOLEAN, "false", HIGH,
        "Whether znodes are created so that only clients with the same zookeeper.auth.digest may change them.",
        effect=SERVED),
    Key("broker.id.generation.enable", BOOLEAN, "true", MEDIUM,
        "Whether ZooKeeper generates the id of a broker that has none."),
    Key("reserved.broker.max.id", INT, "1000", MEDIUM,
        "The highest configured broker id; generated ids are higher.",
        at_least(0)),
)
# fmt: on
