"""Records that a query wanted and the log no longer has."""

import logging
from collections.abc import Iterable, Mapping

from ottla.model import TopicPartition
from ottla.spark.ranges import OffsetRange

logger = logging.getLogger("ottla.spark")

_ADVICE = "set failOnDataLoss to false to go on without them"


class DataLoss(Exception):  # noqa: N818 - it says what happened
    """Retention, or the deletion of a topic, was faster than the query, which is not allowed to go on."""


def lost_range(wanted: OffsetRange) -> str:
    name, start, end = wanted
    return f"{name} does not have the offsets from {start} on any more (wanted: up to {end}); {_ADVICE}"


def report(sentences: Iterable[str], *, fail: bool) -> None:
    """Raise DataLoss, or warn where that is allowed."""
    for sentence in sentences:
        if fail:
            raise DataLoss(f"{sentence}; {_ADVICE}")
        logger.warning("%s", sentence)


def lost_between(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], first: Mapping[TopicPartition, int]
) -> list[str]:
    """What is wrong with a micro-batch from `start` to `end`, where new partitions begin at `first`."""
    sentences = []
    gone = sorted(start.keys() - end.keys())
    if gone:
        sentences.append(f"partitions {', '.join(map(str, gone))} are gone, some records may have been missed")
    late = [f"{each} at {first[each]}" for each in sorted(first) if first[each] > 0]
    if late:
        sentences.append(f"new partitions do not start at offset 0 ({', '.join(late)}), some records may be missed")
    back = [
        f"{each} from {start[each]} to {end[each]}"
        for each in sorted(start.keys() & end.keys())
        if end[each] < start[each]
    ]
    if back:
        sentences.append(f"offsets went back ({', '.join(back)}): the topic was made anew or cut")
    return sentences
