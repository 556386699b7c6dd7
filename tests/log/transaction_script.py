"""Commands to a log that ends transactions, and what a log of ours answers. `KafkaLog.java` is the same for Kafka's.

    data|verified|offsets|late|verify PRODUCER EPOCH SEQUENCE RECORDS t|n VERSION
    marker PRODUCER EPOCH COORDINATOR-EPOCH c|a VERSION
    commit OFFSET     the high watermark moves
    start OFFSET      the log starts there
    truncate OFFSET
    roll, reopen, crash

A batch is `verified` when the coordinator is asked first; `verify` asks and does not append, `late` appends with the
answer of an earlier `verify`; `offsets` is a batch of a group coordinator, which knows no sequence numbers.
"""

import random

from ottla.env.disk import Disk
from ottla.errors import KafkaError
from ottla.log.directory import LogDirectory
from ottla.log.log import Log
from ottla.log.verification import VerificationGuard
from ottla.records.control import EndTransactionMarker
from tests.log.fault_disk import FaultDisk
from tests.log.world import CLICKS, NOW_MS, StillClock, batch, new_log, open_directory


class OurLog:
    def __init__(self, disk: Disk, path: str = "/data") -> None:
        self.disk = disk
        self.path = path
        self.clock = StillClock()
        self.directory: LogDirectory
        self.log: Log
        self.directory, self.log = new_log(disk, self.clock, path)
        self.timestamp = NOW_MS
        self.high_watermark = 0
        self.guards: dict[int, VerificationGuard | None] = {}

    def run(self, line: str) -> str:
        self.timestamp += 1
        try:
            result = self._perform(*line.split())
        except KafkaError as error:
            result = error.code.name
        return f"{line} -> {result} | {self.state()}"

    def _perform(self, command: str, *words: str) -> str:
        match command:
            case "data" | "verified" | "offsets" | "late" | "verify":
                return self._append(command, *words)
            case "marker":
                return self._marker(*words)
            case "commit":
                self.high_watermark = int(words[0])
            case "roll":
                self.log.roll()
                return str(self.log.segments()[-1].base_offset)
            case "start":
                self.log.delete_records_before(int(words[0]))
                return str(self.log.log_start_offset)
            case "truncate":
                self.log.truncate_to(int(words[0]))
                self.high_watermark = min(self.high_watermark, self.log.end_offset)
                return str(self.log.end_offset)
            case "reopen" | "crash":
                return self._reopen(clean=command == "reopen")
        return str(self.high_watermark)

    def _append(
        self, command: str, producer_id: str, epoch: str, sequence: str, records: str, kind: str, version: str
    ) -> str:
        guard = self.guards.get(int(producer_id)) if command == "late" else None
        if command in ("verified", "offsets", "verify"):
            guard = self.log.begin_verification(
                int(producer_id), int(sequence), int(epoch), supports_epoch_bump=version == "2"
            )
        if command == "verify":
            self.guards[int(producer_id)] = guard
            return "ok"
        item = batch(
            int(records),
            timestamp=self.timestamp,
            producer_id=int(producer_id),
            producer_epoch=int(epoch),
            base_sequence=int(sequence),
            transactional=kind == "t",
        )
        base_offset = self.log.end_offset
        if kind == "t":
            original = self.log.append_in_transaction(
                item.view, item.header, 0, guard, from_coordinator=command == "offsets"
            )
        else:
            original = self.log.append(item.view, item.header, 0)
        return str(base_offset if original is None else original.first_offset)

    def _marker(self, producer_id: str, epoch: str, coordinator_epoch: str, kind: str, version: str) -> str:
        marker = EndTransactionMarker(int(producer_id), int(epoch), int(coordinator_epoch), kind == "c")
        offset = self.log.append_marker(
            marker, 0, self.timestamp, transaction_version=int(version), high_watermark=self.high_watermark
        )
        return str(offset)

    def _reopen(self, *, clean: bool) -> str:
        if clean:
            self.directory.close()
        else:
            self.directory.checkpoint_log_start_offsets()
            self.directory._lock.close()
        self.directory = open_directory(self.disk, self.clock, self.path)
        self.log = self.directory.logs[CLICKS]
        self.high_watermark = self.log.end_offset
        return "ok"

    def state(self) -> str:
        log = self.log
        stable = log.last_stable_offset(self.high_watermark)
        unstable = log.first_unstable_offset(self.high_watermark)
        aborted = ",".join(
            f"{entry.producer_id}:{entry.first_offset}-{entry.last_offset}/{entry.last_stable_offset}"
            for entry in log.aborted_transactions(log.log_start_offset, stable)
        )
        producers = ",".join(
            f"{producer.producer_id}:{producer.epoch}:{producer.last_sequence}:{producer.last_timestamp - NOW_MS}"
            f":{producer.coordinator_epoch}:{producer.transaction_start}"
            for producer in sorted(log.producers.active(), key=lambda producer: producer.producer_id)
        )
        return (
            f"log {log.log_start_offset}-{log.end_offset} unstable {'none' if unstable is None else unstable}"
            f" stable {stable} aborted [{aborted}] producers [{producers}]"
        )


class _Client:
    """A producer's own view of its state, which is right most of the time."""

    def __init__(self, producer_id: int, version: int) -> None:
        self.producer_id = producer_id
        self.version = version
        self.epoch = 0
        self.sequence = 0
        self.coordinator_epoch = 1


def write_script(seed: int, length: int) -> list[str]:
    """Random commands of a few mostly correct producers. Only a log can tell which of them fail."""
    chance = random.Random(seed)
    clients = [_Client(1, 1), _Client(2, 2), _Client(3, 2)]
    script: list[str] = []
    writer = _Writer()
    for _ in range(length):
        line = writer.choose(chance, clients)
        script.append(line)
        writer.follow(line)
        if chance.random() < 0.5:
            writer.tell(chance.choice(clients))
    return script


class _Writer:
    """Follows the script while it is written, to compute the base offsets of batches."""

    def __init__(self) -> None:
        self.ours = OurLog(FaultDisk())
        self.boundaries = [0]

    def follow(self, line: str) -> None:
        self.ours.run(line)
        end = self.ours.log.end_offset
        self.boundaries = [offset for offset in self.boundaries if offset < end] + [end]

    def tell(self, client: _Client) -> None:
        """Give the producer the state in the log. Otherwise a rejected producer would be rejected for ever."""
        for producer in self.ours.log.producers.active():
            if producer.producer_id == client.producer_id:
                client.epoch, client.sequence = producer.epoch, producer.next_sequence

    def choose(self, chance: random.Random, clients: list[_Client]) -> str:
        log = self.ours.log
        client = chance.choice(clients)
        kind = chance.choices(
            ["batch", "end", "commit", "roll", "start", "truncate", "reopen", "crash", "new epoch"],
            [50, 22, 12, 5, 2, 2, 2, 2, 3],
        )[0]
        if kind == "batch":
            return self._batch(chance, client)
        if kind == "end":
            return self._marker(chance, client)
        if kind == "commit":
            return f"commit {chance.randint(self.ours.high_watermark, log.end_offset)}"
        if kind == "start":
            # If the log starts within a batch, Kafka's first unstable offset may be the base offset of that batch.
            return f"start {chance.choice([at for at in self.boundaries if at <= self.ours.high_watermark])}"
        if kind == "truncate":
            low = max(log.log_start_offset + 1, log.end_offset - 15)
            return (
                f"truncate {chance.choice([offset for offset in self.boundaries if offset >= low] or [log.end_offset])}"
            )
        if kind == "new epoch":
            client.epoch, client.sequence = client.epoch + 1, 0
            return self._batch(chance, client)
        if kind == "crash" and log.log_start_offset > 0:
            # The state of transactions with records before the log start depends on the snapshots that the log has.
            return "reopen"
        return kind

    @staticmethod
    def _batch(chance: random.Random, client: _Client) -> str:
        count = chance.randint(1, 3)
        sequence, epoch = client.sequence, client.epoch
        command = chance.choices(["verified", "data", "offsets", "verify", "late"], [70, 10, 8, 6, 6])[0]
        transactional = "t" if command != "data" or chance.random() < 0.5 else "n"
        if command == "offsets":
            sequence = 0
        elif chance.random() < 0.1:
            sequence = max(0, sequence + chance.choice([-2, -1, 1, 2]))
        elif chance.random() < 0.05:
            epoch = max(0, epoch - 1)
        elif command != "verify":
            client.sequence += count
        return f"{command} {client.producer_id} {epoch} {sequence} {count} {transactional} {client.version}"

    @staticmethod
    def _marker(chance: random.Random, client: _Client) -> str:
        epoch, coordinator_epoch = client.epoch, client.coordinator_epoch
        mishap = chance.random()
        if mishap < 0.08:
            epoch = max(0, epoch - 1)
        elif mishap < 0.2:
            coordinator_epoch -= 1
        elif mishap < 0.25:
            client.coordinator_epoch = coordinator_epoch = coordinator_epoch + 1
        elif client.version == 2 and mishap < 0.9:
            client.epoch = epoch = epoch + 1
            client.sequence = 0
        return f"marker {client.producer_id} {epoch} {coordinator_epoch} {chance.choice('ca')} {client.version}"
