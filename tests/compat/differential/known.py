"""The cases whose answers differ, with the reason. A case that is not in the table must have the same answers.

A name without a version stands for all versions of a case.
"""

import re

_INTERNAL_ERROR = "Apache Kafka answers UNKNOWN_SERVER_ERROR because of an internal exception"
_ONCE = "Ottla answers once for what a request names twice, so that a small request cannot ask for a large reply"
_NOT_A_NUMBER = "NaN is no ratio; Apache Kafka takes it because no bound is above or below it"
_STOPS_COMPACTION = "Apache Kafka accepts the value, and then its cleaner compacts nothing"
_STOPS_COMPACTION_CASES = [
    f"{request}, {setting}=0"
    for request in (
        "IncrementalAlterConfigs of a broker",
        "IncrementalAlterConfigs of all brokers",
        "AlterConfigs of a broker",
    )
    for setting in ("log.cleaner.io.buffer.load.factor", "log.cleaner.io.max.bytes.per.second")
]
_DUPLICATE_TIME = "for a duplicate Apache Kafka reports the time of its records as the log append time"
_DUPLICATE_BATCHES = [
    f"Produce of {what} v{version}"
    for what in ("an unknown producer", "an unknown producer with a late sequence")
    for version in (8, 9, 12)
]

_EACH_BATCH = "Ottla appends every batch of a request; of two for one partition, Apache Kafka drops the first"
_NO_RECORD_ERRORS = "Ottla refuses the batch by its header, and does not open it to name its records"
_REFUSED_BATCHES = [
    f"Produce of {what} v{version}"
    for what in ("a control batch", "a negative sequence", "a base offset")
    for version in (8, 9, 12)
]

KNOWN = {
    "Metadata of a null name v12": _INTERNAL_ERROR,
    "Metadata of a null name v13": _INTERNAL_ERROR,
    "DescribeTopicPartitions of an empty name": _INTERNAL_ERROR,
    "DescribeTopicPartitions with errors": _INTERNAL_ERROR,
    "Fetch of negative bytes": _INTERNAL_ERROR,
    "Fetch of negative bytes in all": _INTERNAL_ERROR,
    "FindCoordinator of several groups": _ONCE,
    "DescribeConfigs of the same twice": _ONCE,
    "DescribeConfigs of unknown resources twice": _ONCE,
    "DescribeTransactions of the same twice": _ONCE,
    "IncrementalAlterConfigs of a topic, min.cleanable.dirty.ratio=NaN": _NOT_A_NUMBER,
    "Produce of trailing bytes": "Ottla refuses bytes that are no batch; Apache Kafka drops them",
    "Produce of a negative epoch": "without an epoch Ottla could not tell a duplicate, or a fenced producer",
    "Produce of a log append time": "only a broker may set that flag; Apache Kafka does not check it",
    "WriteTxnMarkers of nothing": "Ottla answers every marker, Apache Kafka leaves out those without partitions",
    "DescribeProducers of the same twice": _ONCE,
    "DescribeProducers of the same topic twice": _ONCE,
    "Produce to the same partition twice": _EACH_BATCH,
    "Produce to the same topic twice": _EACH_BATCH,
    "Fetch by id": "the partitions are the same, in another order: Apache Kafka puts those in error last",
    **dict.fromkeys(_STOPS_COMPACTION_CASES, _STOPS_COMPACTION),
    **dict.fromkeys(_DUPLICATE_BATCHES, _DUPLICATE_TIME),
    **dict.fromkeys(_REFUSED_BATCHES, _NO_RECORD_ERRORS),
}
"""Ottla's answer is knowingly another one."""


def known_reason(name: str) -> str | None:
    return KNOWN.get(name) or KNOWN.get(without_version(name))


def without_version(name: str) -> str:
    return re.sub(r" v\d+$", "", name)
