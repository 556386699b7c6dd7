"""Keys of one client metrics subscription (KIP-714)."""

from ottla.config.checks import ListOf, between
from ottla.config.definition import Key
from ottla.config.keys.words import INT, LIST, MEDIUM

# fmt: off
# A table reads better with two or three lines for each key than with one for each argument.
KEYS = (
    Key("interval.ms", INT, "300000", MEDIUM,
        "How often matching clients push their metrics.",
        between(100, 3_600_000)),
    Key("match", LIST, "", MEDIUM,
        "Which clients the subscription is for, as a list of selector=pattern.",
        ListOf()),
    Key("metrics", LIST, "", MEDIUM,
        "Prefixes of the metrics that are asked for; * for all, empty for none.",
        ListOf()),
)
# fmt: on
