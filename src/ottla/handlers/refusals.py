"""What a producer sends behind a batch that was refused for the moment is refused for the same reason.

A producer has several requests on their way. If one comes when this broker does not lead yet, and the next when it
does, the sequence numbers of the next one are ahead. Kafka then says OUT_OF_ORDER_SEQUENCE_NUMBER, whereupon librdkafka
begins a new epoch, in which it sends everything again that it has no answer for, other partitions' batches too, which
may be stored already (`docs/decisions/0013`). Here the reason of the gap is known: it is told.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from ottla.errors import ErrorCode, KafkaError
from ottla.log.producers import SequenceGapError
from ottla.records.format import HEADER_SIZE
from ottla.records.header import read_header

if TYPE_CHECKING:
    from ottla.env.network import Address

_FOR_THE_MOMENT = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
"""With nothing appended, and to be tried again."""

_REMEMBERED = 1000


class _Refused(NamedTuple):
    epoch: int
    sequence: int
    reason: KafkaError


class Refusals:
    """The last batch that each producer was refused in each partition, for all connections of a broker."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: OrderedDict[tuple[Address, str, int, int], _Refused] = OrderedDict()

    def reason(
        self, peer: Address, topic: str, index: int, records: bytes | memoryview | None, error: KafkaError
    ) -> KafkaError:
        """What to tell a producer whose batch cannot be appended because of an error."""
        is_gap = isinstance(error, SequenceGapError)
        if records is None or len(records) < HEADER_SIZE or not (is_gap or error.code in _FOR_THE_MOMENT):
            return error
        header = read_header(records)
        if header.producer_id < 0:
            return error
        key = peer, topic, index, header.producer_id
        if isinstance(error, SequenceGapError):
            last = self._last.get(key)
            if last is None or last.epoch != header.producer_epoch:
                return error
            if not error.due <= last.sequence < header.base_sequence:
                return error  # What was refused is there by now: nothing is missing because of it.
            error = last.reason
        self._last[key] = _Refused(header.producer_epoch, header.base_sequence, error)
        if len(self._last) > _REMEMBERED:
            self._last.popitem(last=False)
        return error
