"""Broker keys: producers and transactions."""

from ottla.config.checks import at_least
from ottla.config.definition import Key
from ottla.config.keys.words import BOOLEAN, CLUSTER_WIDE, HIGH, INT, LOW, SERVED, SHORT

# fmt: off
# A table reads better with two or three lines for each key than with one for each argument.
KEYS = (
    Key("producer.id.expiration.ms", INT, "86400000", LOW,
        "The broker removes the state of an idle producer after this time.",
        at_least(1), update=CLUSTER_WIDE, effect=SERVED),
    Key("producer.id.expiration.check.interval.ms", INT, "600000", LOW,
        "Time between two checks for expired producers.",
        at_least(1), effect=SERVED, internal=True),
    Key("transaction.max.timeout.ms", INT, "900000", HIGH,
        "The longest timeout a transactional producer may ask for.",
        at_least(1), effect=SERVED),
    Key("transactional.id.expiration.ms", INT, "604800000", HIGH,
        "The coordinator removes an unused transactional id after this time.",
        at_least(1), effect=SERVED),
    Key("transaction.state.log.num.partitions", INT, "50", HIGH,
        "Partitions of __transaction_state; do not change it once the topic exists.",
        at_least(1), effect=SERVED),
    Key("transaction.state.log.replication.factor", SHORT, "3", HIGH,
        "Replicas of __transaction_state.",
        at_least(1), ottla_default="1", effect=SERVED),
    Key("transaction.state.log.min.isr", INT, "2", HIGH,
        "How many replicas of __transaction_state must have a write.",
        at_least(1), ottla_default="1", effect=SERVED),
    Key("transaction.state.log.segment.bytes", INT, "104857600", HIGH,
        "Segment size of __transaction_state.",
        at_least(1), effect=SERVED),
    Key("transaction.state.log.load.buffer.size", INT, "5242880", HIGH,
        "Bytes read at a time when a coordinator loads transactions.",
        at_least(1)),
    Key("transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, "10000", LOW,
        "Time between two checks for transactions that have timed out.",
        at_least(1)),
    Key("transaction.remove.expired.transaction.cleanup.interval.ms", INT, "3600000", LOW,
        "Time between two checks for expired transactional ids.",
        at_least(1), effect=SERVED),
    Key("transaction.partition.verification.enable", BOOLEAN, "true", LOW,
        "Whether a transactional batch is refused unless its partition was added to the transaction.",
        update=CLUSTER_WIDE, effect=SERVED),
    Key("transaction.two.phase.commit.enable", BOOLEAN, "false", LOW,
        "Whether a producer may hold a transaction open for an outside coordinator (KIP-939)."),
    Key("add.partitions.to.txn.retry.backoff.ms", INT, "20", HIGH,
        "The pause before the broker retries to add a partition to a transaction.",
        at_least(1), effect=SERVED),
    Key("add.partitions.to.txn.retry.backoff.max.ms", INT, "100", HIGH,
        "The total time for which the broker retries to add a partition to a transaction.",
        at_least(0), effect=SERVED),
)
# fmt: on
