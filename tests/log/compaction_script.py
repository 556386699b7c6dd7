"""Creates logs with keys, producers, transactions and tombstones from a seed, and prints their contents as text.

`KafkaCleaner.java` writes the same text for a log that Kafka has compacted.
"""

import random

from ottla.env.disk import Disk
from ottla.log.cleaning import Cleaning
from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.log.transaction_index import entries
from ottla.records.builder import NewRecord, build_batch
from ottla.records.control import EndTransactionMarker
from ottla.records.format import DELETE_HORIZON_FLAG, Codec
from ottla.records.header import iter_headers, read_header
from ottla.records.reader import read_records
from tests.log.world import NOW_MS

MEMORY = 1 << 20


def compaction_config(**settings: int) -> LogConfig:
    return LogConfig(
        segment_bytes=settings.get("segment_bytes", 1500),
        index_interval_bytes=300,
        compact=True,
        delete=False,
        min_cleanable_dirty_ratio=0.0,
        delete_retention_ms=1000,
        file_delete_delay_ms=0,
    )


class Writer:
    """A few producers that write to one log. All choices are random, and the same for the same seed."""

    def __init__(self, log: Log, seed: int) -> None:
        self.log = log
        self._chance = random.Random(seed)
        self._sequences: dict[int, int] = {}
        self._epochs: dict[int, int] = {}
        self._open: set[int] = set()
        self._number = 0
        self.now_ms = NOW_MS
        self.leader_epoch = 0

    def write(self, batches: int, keys: int = 12) -> None:
        for _ in range(batches):
            self.now_ms += self._chance.randint(0, 5)
            kind = self._chance.choices(["plain", "idempotent", "transactional", "end", "epoch"], [4, 2, 6, 3, 1])[0]
            if kind == "plain":
                self.append(self.records(keys), -1, transactional=False)
            elif kind == "idempotent":
                self.append(self.records(keys), self._chance.choice([10, 11]), transactional=False)
            elif kind == "transactional":
                self.append(self.records(keys), self._chance.choice([20, 21, 22]), transactional=True)
            elif kind == "end" and self._open:
                self.end(self._chance.choice(sorted(self._open)), committed=self._chance.random() < 0.6)
            elif kind == "epoch":
                self.leader_epoch += 1

    def records(self, keys: int) -> list[NewRecord]:
        chance = self._chance
        records = []
        for _ in range(chance.randint(1, 5)):
            self._number += 1
            key = b"key-%d" % chance.randrange(keys)
            value = None if chance.random() < 0.15 else b"value-%d" % self._number
            headers = (("trace", b"%d" % self._number),) if chance.random() < 0.2 else ()
            records.append(NewRecord(key, value, headers, self.now_ms + chance.randint(-20, 20)))
        return records

    def append(self, records: list[NewRecord], producer_id: int, *, transactional: bool) -> None:
        epoch = self._epochs.setdefault(producer_id, 0)
        sequence = self._sequences.setdefault(producer_id, 0)
        data = build_batch(
            records,
            codec=self._chance.choice([Codec.NONE, Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD, Codec.SNAPPY]),
            producer_id=producer_id,
            producer_epoch=epoch if producer_id >= 0 else -1,
            base_sequence=sequence if producer_id >= 0 else -1,
            transactional=transactional,
            log_append_time=self.now_ms if self._chance.random() < 0.1 else None,
        )
        header = read_header(data)
        if transactional:
            guard = self.log.begin_verification(producer_id, sequence, epoch, supports_epoch_bump=False)
            assert self.log.append_in_transaction(memoryview(data), header, self.leader_epoch, guard) is None
            self._open.add(producer_id)
        else:
            assert self.log.append(memoryview(data), header, self.leader_epoch) is None
        self._sequences[producer_id] += len(records)

    def end(self, producer_id: int, *, committed: bool) -> None:
        bump = self._chance.random() < 0.5
        if bump:
            self._epochs[producer_id] += 1
            self._sequences[producer_id] = 0
        marker = EndTransactionMarker(producer_id, self._epochs[producer_id], 0, committed)
        self.log.append_marker(
            marker,
            self.leader_epoch,
            self.now_ms,
            transaction_version=2 if bump else 1,
            high_watermark=self.log.end_offset,
        )
        self._open.discard(producer_id)


def sync(log: Log) -> None:
    log.synced(log.sync())


def clean(log: Log, now_ms: int, memory: int = MEMORY) -> Cleaning | None:
    """Run one pass like a broker; None if there is nothing to compact."""
    cleanable = log.compaction.cleanable(now_ms, log.end_offset)
    if not cleanable.is_due(log.config):
        return None
    cleaning = log.compaction.start(cleanable, now_ms, memory)
    cleaning.prepare()
    for group in cleaning.groups:
        cleaned = cleaning.clean(group)
        if cleaned is not None:
            assert log.compaction.swap(cleaned)
    log.compaction.finish(cleaning)
    return cleaning


def describe(disk: Disk, path: str) -> list[str]:
    """One line for every batch in a partition's directory, then one for every aborted transaction."""
    batches, aborted = [], []
    for name in disk.list(path):
        if name.endswith(".log"):
            batches += describe_batches(disk.read_bytes(f"{path}/{name}"))
        elif name.endswith(".txnindex"):
            aborted += [
                f"aborted {entry.producer_id} {entry.first_offset} {entry.last_offset}"
                for entry in entries(disk.read_bytes(f"{path}/{name}"))
            ]
    return batches + aborted


def describe_batches(data: bytes) -> list[str]:
    view = memoryview(data)
    lines = []
    for position, header in iter_headers(view):
        batch = view[position : position + header.size]
        horizon = header.base_timestamp - NOW_MS if header.attributes & DELETE_HORIZON_FLAG else "none"
        records = [
            f"{record.offset}:{record.timestamp - NOW_MS}:{_text(record.key)}={_text(record.value)}"
            + "".join(f"/{name}:{_text(value)}" for name, value in record.headers)
            for record in read_records(batch)
        ]
        flags = ("t" if header.is_transactional else "") + ("c" if header.is_control else "")
        lines.append(
            f"{header.base_offset}-{header.last_offset} {header.codec.kafka_name} epoch {header.partition_leader_epoch}"
            f" producer {header.producer_id}:{header.producer_epoch}:{header.base_sequence} {flags or '-'}"
            f" {'append' if header.log_append_time else 'create'} {header.max_timestamp - NOW_MS} horizon {horizon}"
            f" [{' '.join(records)}]"
        )
    return lines


def _text(data: bytes | None) -> str:
    if data is None:
        return "null"
    return data.decode() if data.isascii() and data.decode().isprintable() else data.hex()
