"""Broker keys: metrics."""

from ottla.config.checks import ListOf, at_least
from ottla.config.definition import Key
from ottla.config.keys.words import CLUSTER_WIDE, INT, LIST, LONG, LOW, STRING

# fmt: off
# A table reads better with two or three lines for each key than with one for each argument.
KEYS = (
    Key("metric.reporters", LIST, "org.apache.kafka.common.metrics.JmxReporter", LOW,
        "Plug-ins that publish metrics.",
        ListOf(), update=CLUSTER_WIDE),
    Key("metrics.num.samples", INT, "2", LOW,
        "How many samples are kept for each metric.",
        at_least(1)),
    Key("metrics.sample.window.ms", LONG, "30000", LOW,
        "The length of one sample of a metric.",
        at_least(1)),
    Key("metrics.recording.level", STRING, "INFO", LOW,
        "The most detailed level of metrics that are kept."),
    Key("kafka.metrics.reporters", LIST, "", LOW,
        "Plug-ins that publish the older kind of metrics.",
        ListOf()),
    Key("kafka.metrics.polling.interval.secs", INT, "10", LOW,
        "How often the plug-ins of kafka.metrics.reporters run.",
        at_least(1)),
    Key("telemetry.max.bytes", INT, "1048576", LOW,
        "The most bytes of metrics that a client may push at once (KIP-714).",
        at_least(1)),
)
# fmt: on
