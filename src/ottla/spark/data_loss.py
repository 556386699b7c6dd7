"""Errors and warnings about records that a query should read and that the log no longer has."""

import logging
from collections.abc import Iterable, Mapping

from ottla.model import TopicPartition
from ottla.spark.ranges import OffsetRange

logger = logging.getLogger("ottla.spark")

_ADVICE = "set failOnDataLoss to false to continue without them"


class DataLoss(Exception):  # noqa: N818 - the name states the event
    """Retention or topic deletion removed records before the query read them, and failOnDataLoss is true."""


def lost_range(wanted: OffsetRange) -> str:
    name, start, end = wanted
    return f"{name} no longer has the offsets from {start} on (the query reads up to {end}); {_ADVICE}"


def report(sentences: Iterable[str], *, fail: bool) -> None:
    """Raise DataLoss if `fail` is true, otherwise log a warning."""
    for sentence in sentences:
        if fail:
            raise DataLoss(f"{sentence}; {_ADVICE}")
        logger.warning("%s", sentence)


def lost_between(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], first: Mapping[TopicPartition, int]
) -> list[str]:
    """Describe the data loss in a micro-batch from `start` to `end`. New partitions begin at `first`."""
    sentences = []
    gone = sorted(start.keys() - end.keys())
    if gone:
        sentences.append(f"partitions {', '.join(map(str, gone))} no longer exist; records may have been missed")
    late = [f"{each} at {first[each]}" for each in sorted(first) if first[each] > 0]
    if late:
        sentences.append(f"new partitions do not start at offset 0 ({', '.join(late)}); records may have been missed")
    back = [
        f"{each} from {start[each]} to {end[each]}"
        for each in sorted(start.keys() & end.keys())
        if end[each] < start[each]
    ]
    if back:
        sentences.append(f"offsets went back ({', '.join(back)}): the topic was created again or truncated")
    return sentences
