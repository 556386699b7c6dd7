"""Record batches for hostile producers: every codec, bombs, and headers that lie with a right checksum."""

import random
from dataclasses import dataclass

from ottla.records.builder import NewRecord, build_batch, seal
from ottla.records.format import HEADER_SIZE, Codec
from tests.records.samples import patched

_LAST_OFFSET_DELTA_AT = 23
_MAX_TIMESTAMP_AT = 35
_RECORD_COUNT_AT = 57
_MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Producer:
    """What a batch says about who wrote it."""

    id: int = -1
    epoch: int = -1
    sequence: int = -1
    transactional: bool = False


class Batches:
    """`draw` returns the records field of one partition of a Produce request."""

    def __init__(self, rng: random.Random, shared: "Prebuilt") -> None:
        self._rng = rng
        self._shared = shared

    def draw(self, producer: Producer) -> bytes | None:
        chance = self._rng.random()
        if chance < 0.55:
            return self._honest(producer)
        if chance < 0.70:
            return self._lying()
        if chance < 0.71:
            return self._rng.choice(self._shared.bombs)
        if chance < 0.80:
            return self._damaged()
        return self._rng.choice((None, b"", *self._shared.whole))

    def _honest(self, producer: Producer) -> bytes:
        rng = self._rng
        records = [
            NewRecord(
                rng.choice((None, b"", b"key", b"k%d" % rng.randrange(50))),
                rng.choice((None, b"", b"value", bytes(rng.randrange(300)))),
                rng.choice(((), (("header", None),), (("", b"x"), ("", b"y")))),
                rng.choice((-1, 0, 1000 + rng.randrange(1000), 1_700_000_000_000)),
            )
            for _ in range(rng.choice((1, 1, 2, 5, 20)))
        ]
        return bytes(
            build_batch(
                records,
                codec=rng.choice(tuple(Codec)),
                producer_id=producer.id,
                producer_epoch=producer.epoch,
                base_sequence=producer.sequence,
                transactional=producer.transactional,
            )
        )

    def _lying(self) -> bytes:
        """The checksum is right; a count, a time, an attribute or the producer is not."""
        rng = self._rng
        whole = rng.choice(self._shared.whole)
        match rng.randrange(5):
            case 0:
                count = rng.choice((0, -1, 2, 1000, 1_000_000, 2**31 - 1, -(2**31)))
                fewer = bytes(patched(whole, _RECORD_COUNT_AT, ">i", count))
                return bytes(patched(fewer, _LAST_OFFSET_DELTA_AT, ">i", max(count - 1, -1)))
            case 1:
                return bytes(patched(whole, _LAST_OFFSET_DELTA_AT, ">i", rng.choice((0, -1, 2**31 - 1))))
            case 2:
                time = rng.choice((-1, 0, 2**45, 2**63 - 1, -(2**63)))
                return bytes(patched(whole, _MAX_TIMESTAMP_AT, ">q", time))
            case 3:
                return bytes(patched(whole, 21, ">h", rng.choice((5, 7, 8, 16, 32, 48, 64, -1))))
            case _:
                return bytes(patched(whole, 43, ">q", rng.choice((0, 1, 1000, 2**63 - 1, -2))))

    def _damaged(self) -> bytes:
        rng = self._rng
        whole = bytearray(rng.choice(self._shared.whole))
        at = rng.randrange(len(whole))
        whole[at] ^= 1 << rng.randrange(8)
        if rng.random() < 0.5 and at >= HEADER_SIZE:
            seal(whole)
        elif rng.random() < 0.5:
            del whole[rng.randrange(1, len(whole)) :]
        return bytes(whole)


class Prebuilt:
    """Batches that take long to make, so that all connections share them."""

    def __init__(self) -> None:
        three = [NewRecord(b"k%d" % number, b"Ottla" * 20, (), 1000 + number) for number in range(3)]
        many = [NewRecord(None, b"%d" % number, (), number) for number in range(2000)]
        self.whole = [bytes(build_batch(three, codec=codec)) for codec in Codec]
        self.whole += [bytes(build_batch(many, codec=codec)) for codec in (Codec.NONE, Codec.ZSTD)]
        self.bombs = [
            bytes(build_batch([NewRecord(b"bomb", bytes(size * _MEGABYTE), (), 1000)], codec=codec))
            for size, codec in ((2, Codec.LZ4), (8, Codec.SNAPPY), (32, Codec.GZIP), (100, Codec.ZSTD))
        ]
        # A batch above message.max.bytes is refused for its size alone.
        self.bombs = [bomb for bomb in self.bombs if len(bomb) < _MEGABYTE]
        empty = [NewRecord(None, None, (), 0)] * 100_000
        self.bombs.append(bytes(build_batch(empty, codec=Codec.ZSTD)))
