"""The cases whose answers differ, with the reason. A case that is in neither table must have the same answers.

A name without a version stands for all versions of a case.
"""

import re

_INTERNAL_ERROR = "Apache Kafka answers UNKNOWN_SERVER_ERROR because of an internal exception"
_ONCE = "Ottla answers once for what a request names twice, so that a small request cannot ask for a large reply"
_NOT_A_NUMBER = "NaN is no ratio; Apache Kafka takes it because no bound is above or below it"
_DUPLICATE_TIME = "for a duplicate Apache Kafka reports the time of its records as the log append time"
_DUPLICATE_BATCHES = [
    f"Produce of {what} v{version}"
    for what in ("an unknown producer", "an unknown producer with a late sequence")
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
    **dict.fromkeys(_DUPLICATE_BATCHES, _DUPLICATE_TIME),
}
"""Ottla's answer is knowingly another one."""

_REPEATED = "a repeated item has to be answered as Apache Kafka does"
_RECORD_ERRORS = "Produce has to report the log start offset, and the refused records (KIP-467), with this error"
_LAST_EPOCH = "Fetch has to check last_fetched_epoch for consumers too"
_ABORTED = "Fetch has to list no aborted transactions, instead of null, for a partition that is not there"
_PROTOCOL = "SyncGroup has to require the protocol type and name"
_NO_GROUP = "an empty group id has to be refused with INVALID_GROUP_ID"
_ERRORS_FIRST = "partitions in error have to come first, as in Apache Kafka"
_ERRORS_LAST = "topics in error have to come last, as in Apache Kafka"

PENDING = {
    "ListOffsets of the same partition twice": _REPEATED,
    "ListOffsets of the same topic twice": _REPEATED,
    "ListOffsets of an unknown partition twice": _REPEATED,
    "ListOffsets of a partition twice and another": _REPEATED,
    "DeleteRecords of the same partition twice": _REPEATED,
    "DescribeProducers of the same twice": _ONCE,
    "DescribeProducers of the same topic twice": _ONCE,
    "Produce to the same partition twice": _REPEATED,
    "Produce to the same topic twice": _REPEATED,
    "DescribeGroups of the same group twice": _REPEATED,
    "DeleteGroups of an unknown group twice": _REPEATED,
    "DeleteGroups of a group twice": _REPEATED,
    "OffsetFetch of groups": _REPEATED,
    "Fetch after a newer epoch": _LAST_EPOCH,
    "Fetch past the end after the right epoch": _LAST_EPOCH,
    "Fetch from an unknown topic": _ABORTED,
    "Fetch from an empty name": _ABORTED,
    "Fetch from an unknown partition": _ABORTED,
    "Fetch from a negative partition": _ABORTED,
    "Fetch by id": _ABORTED,
    "Fetch by unknown id": _ABORTED,
    "Fetch in a session": "the first fetch of a session must not move partitions with records to the end",
    "Fetch with a negative epoch": "Fetch has to take every negative epoch for none",
    "Fetch of an unknown replica": "a fetch of a broker that has no replica has to get NOT_LEADER_OR_FOLLOWER",
    "Produce without a key to a compacted topic v7": _RECORD_ERRORS,
    "Produce without a key, with record errors": _RECORD_ERRORS,
    "Produce of a time in the far future v8": _RECORD_ERRORS,
    "Produce of a time in the far future v9": _RECORD_ERRORS,
    "Produce of a time in the far future v12": _RECORD_ERRORS,
    "Produce of a control batch v8": _RECORD_ERRORS,
    "Produce of a control batch v9": _RECORD_ERRORS,
    "Produce of a control batch v12": _RECORD_ERRORS,
    "Produce of a negative sequence v8": _RECORD_ERRORS,
    "Produce of a negative sequence v9": _RECORD_ERRORS,
    "Produce of a negative sequence v12": _RECORD_ERRORS,
    "Produce of a base offset v8": _RECORD_ERRORS,
    "Produce of a base offset v9": _RECORD_ERRORS,
    "Produce of a base offset v12": _RECORD_ERRORS,
    "SyncGroup with null protocols": _PROTOCOL,
    "SyncGroup v5 of an unknown group with null protocols": _PROTOCOL,
    "DescribeGroups of an unknown group v6": "a group that is not there has no authorized operations",
    "DescribeGroups of an unknown group, the text": "the error message has to be that of Apache Kafka",
    "OffsetCommit with errors": _ERRORS_FIRST,
    "OffsetCommit by id": _ERRORS_FIRST,
    "OffsetFetch by id": _ERRORS_LAST,
    "OffsetDelete of an empty group": _NO_GROUP,
    "TxnOffsetCommit of an empty group": _NO_GROUP,
    "TxnOffsetCommit with errors": _ERRORS_FIRST,
}
"""Ottla's answer is about to change. The answers may be the same or not."""


def known_reason(name: str) -> str | None:
    return KNOWN.get(name) or KNOWN.get(without_version(name))


def pending_reason(name: str) -> str | None:
    return PENDING.get(name) or PENDING.get(without_version(name))


def without_version(name: str) -> str:
    return re.sub(r" v\d+$", "", name)
