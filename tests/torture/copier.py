"""One copier process: consumes, produces and commits the offsets in one transaction, until it is killed.

Its settings are JSON. It does not know of the faults. A fatal error ends the process, and its parent restarts it. It
prints the outcome of each transaction on one line.
"""

import json
import random
import signal
import struct
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

_CALL_TIMEOUT = 10.0
_IDLE_SECONDS = 0.2
_CLIENT = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 300,
    # With one broker, a lost connection makes librdkafka begin anew from its bootstrap servers and forget the group's
    # coordinator while a call waits for it: send_offsets_to_transaction then never returns (its issues 5511 and 5456).
    "metadata.recovery.strategy": "none",
    "log_level": 0,
}


@dataclass(frozen=True, slots=True)
class Settings:
    bootstrap: str
    input: str
    output: str
    group: str
    transactional_id: str
    instance_id: str | None
    seed: str
    strategy: str
    session_timeout_ms: int
    transaction_timeout_ms: int
    abort_share: float = 0.1
    largest_transaction: int = 40
    offsets_outside: bool = False
    """The mistake that exactly-once must prevent: offsets are committed outside of the transaction."""

    def command(self) -> list[str]:
        return [sys.executable, str(Path(__file__)), json.dumps(asdict(self))]


class Copier:
    """`_next` has the offset after the last record of the open transaction, by partition. Empty if none is open."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._chance = random.Random(settings.seed)
        self._next: dict[int, int] = {}
        self._count = 0
        self._began = 0.0
        self._size = 0
        self._rewind = False
        self._stopping = False
        self._producer = Producer(
            {
                "bootstrap.servers": settings.bootstrap,
                "transactional.id": settings.transactional_id,
                "transaction.timeout.ms": settings.transaction_timeout_ms,
                "linger.ms": 1,
                "batch.num.messages": 7,
                **_CLIENT,
            }
        )
        static = {} if settings.instance_id is None else {"group.instance.id": settings.instance_id}
        self._consumer = Consumer(
            {
                **static,
                "bootstrap.servers": settings.bootstrap,
                "group.id": settings.group,
                "partition.assignment.strategy": settings.strategy,
                "session.timeout.ms": settings.session_timeout_ms,
                "heartbeat.interval.ms": settings.session_timeout_ms // 6,
                "isolation.level": "read_committed",
                # librdkafka 2.16 takes an offset for missing if a rebalance comes while it waits for the transaction
                # that may still move it. There is always one (`run` sees to that), so rather end than begin anew.
                "auto.offset.reset": "error",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 50,
                **_CLIENT,
            }
        )

    def run(self) -> None:
        signal.signal(signal.SIGTERM, self._stop)
        self._producer.init_transactions()
        say("ready")
        self._consumer.subscribe(
            [self._settings.input], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )
        while not self._stopping:
            message = self._consumer.poll(0.05)
            if self._rewind:
                self._seek_to_committed()
            elif message is not None and not _is_error(message):
                self._copy(message)
            if self._count >= max(self._size, 1) or time.monotonic() - self._began > _IDLE_SECONDS:
                self._settle()
        self._settle()
        self._consumer.close()

    def _stop(self, *_: object) -> None:
        self._stopping = True

    def _copy(self, message: Any) -> None:
        if not self._next:
            self._producer.begin_transaction()
            self._began = time.monotonic()
            self._size = self._chance.randint(1, self._settings.largest_transaction)
        self._producer.produce(
            self._settings.output, value=message.value(), key=message.key(), partition=message.partition()
        )
        self._producer.poll(0)
        self._next[message.partition()] = message.offset() + 1
        self._count += 1

    def _settle(self) -> None:
        if not self._next:
            return
        try:
            self._commit()
        except AbortError as error:
            self._abort(str(error))
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self._abort(_reason(error.args[0]))
        else:
            say(f"commit of {self._count}")
            self._forget()

    def _commit(self) -> None:
        if self._settings.offsets_outside:
            self._consumer.commit(offsets=self._positions(), asynchronous=False)
        else:
            self._abort_perhaps("at random before its offsets")
            self._producer.send_offsets_to_transaction(self._positions(), self._membership(), _CALL_TIMEOUT)
        self._abort_perhaps("at random after its offsets")
        _until_done(self._producer.commit_transaction)

    def _abort(self, why: str) -> None:
        """The records were consumed and will not be in the output. They are read again from the committed offsets."""
        _until_done(self._producer.abort_transaction)
        say(f"abort of {self._count}: {why}")
        self._forget()
        self._rewind = not self._settings.offsets_outside

    def _forget(self) -> None:
        self._next, self._count = {}, 0

    def _abort_perhaps(self, why: str) -> None:
        """Its records are already in the log, and `read_committed` consumers must skip them."""
        if self._chance.random() < self._settings.abort_share / 2:
            self._producer.flush(_CALL_TIMEOUT)
            raise AbortError(why)

    def _positions(self) -> list[Any]:
        return [TopicPartition(self._settings.input, partition, offset) for partition, offset in self._next.items()]

    def _membership(self) -> bytes:
        """Kafka fences by generation and member id, but lets a commit without any pass, as old clients send it.

        librdkafka forgets both as soon as a heartbeat is answered with UNKNOWN_MEMBER_ID, which is before the
        application hears of it. Records consumed before that must not be committed (KIP-447).
        """
        metadata: bytes = self._consumer.consumer_group_metadata()
        [generation] = struct.unpack_from("=i", metadata, len(b"CGMDv2:"))
        if generation < 0:
            raise AbortError("no longer a member")
        return metadata

    def _seek_to_committed(self) -> None:
        self._rewind = False
        assignment = self._consumer.assignment()
        for place in self._consumer.committed(assignment, timeout=_CALL_TIMEOUT):
            if place.offset < 0:
                raise KafkaException(KafkaError(KafkaError._NO_OFFSET))
            self._consumer.seek(place)

    def _assigned(self, _: Any, partitions: list[Any]) -> None:
        say(f"assigned {sorted(it.partition for it in partitions)}")

    def _revoked(self, _: Any, partitions: list[Any]) -> None:
        """Called before the generation changes: the last chance to commit the records of this generation."""
        self._settle()
        say(f"revoked {sorted(it.partition for it in partitions)}")

    def _lost(self, _: Any, partitions: list[Any]) -> None:
        if self._next:
            self._abort("partitions lost")
        say(f"lost {sorted(it.partition for it in partitions)}")


class AbortError(Exception):
    """The transaction must not be committed."""


def _is_error(message: Any) -> bool:
    """The client reports and handles errors of a consumer itself, unless they are fatal."""
    error = message.error()
    if error is not None and (error.fatal() or error.code() == KafkaError._AUTO_OFFSET_RESET):
        raise KafkaException(error)
    return error is not None


def _until_done(call: Any) -> None:
    """A call that timed out continues when it is repeated."""
    while True:
        try:
            call(_CALL_TIMEOUT)
            return
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


def _reason(error: KafkaError) -> str:
    return f"{error.name()} ({error.str()})"


def say(text: str) -> None:
    print(f"{time.time():.3f} {text}", flush=True)


def main() -> None:
    try:
        Copier(Settings(**json.loads(sys.argv[1]))).run()
    except KafkaException as error:
        say(f"ended: {_reason(error.args[0])}")
        sys.exit(1)


if __name__ == "__main__":
    main()
