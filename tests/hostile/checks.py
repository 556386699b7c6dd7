"""Checks after the requests: every coordinator answers, and the log has no traceback, error or long hold."""

import itertools
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from ottla.coordinator_core.placement import partition_for
from ottla.errors import ErrorCode
from ottla.server.watchdog import HELD
from ottla.wire.api.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.wire.api.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from tests.server.wire_client import WireClient

_TIMEOUT = 60.0
_CLIENTS_MAY_CAUSE = ("(ottla.log)", "; max.message.bytes is ")
"""Errors that the log finds in batches which it stored unopened, and groups whose metadata is too long for a batch of
`__consumer_offsets`."""
_RETRIED = {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}


def names_for_every_partition(prefix: str, partitions: int) -> list[str]:
    """One group or transactional id for each partition of its coordinator's topic."""
    found: dict[int, str] = {}
    for number in itertools.count():
        name = f"{prefix}-{number}"
        found.setdefault(partition_for(name, partitions), name)
        if len(found) == partitions:
            return [found[partition] for partition in range(partitions)]
    raise AssertionError("unreachable")


def commit_in_every_partition(bootstrap: str, topic: str, partitions: int) -> list[str]:
    return _try_each(bootstrap, names_for_every_partition("check", partitions), 0, topic, _commit)


def transact_in_every_partition(bootstrap: str, topic: str, partitions: int) -> list[str]:
    return _try_each(bootstrap, names_for_every_partition("check", partitions), 1, topic, _transact)


def _try_each(
    bootstrap: str, names: list[str], key_type: int, topic: str, attempt: Callable[[WireClient, str, str], None]
) -> list[str]:
    findings = []
    for partition, name in enumerate(names):
        try:
            with WireClient(bootstrap, _TIMEOUT) as client:
                _find_coordinator(client, name, key_type)
                attempt(client, name, topic)
        except (AssertionError, EOFError, OSError) as error:
            findings.append(f"{attempt.__name__[1:]} in partition {partition} ({name}): {error!r}")
    return findings


def _find_coordinator(client: WireClient, name: str, key_type: int) -> None:
    request = FindCoordinatorRequest(key=name, key_type=key_type)
    _succeed(lambda: client.call(request, 2, FindCoordinatorResponse).error_code)


def _succeed(call: Callable[[], int]) -> None:
    """Repeat a request as long as the error in its reply asks for that."""
    deadline = time.monotonic() + _TIMEOUT
    while code := ErrorCode(call()):
        assert code in _RETRIED, code.name
        assert time.monotonic() < deadline, f"{code.name} for {_TIMEOUT:.0f} s"
        time.sleep(0.05)


def _commit(client: WireClient, group: str, topic: str) -> None:
    offset = time.monotonic_ns()
    place = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    commit = OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=[place])])
    _succeed(lambda: client.call(commit, 8, OffsetCommitResponse).topics[0].partitions[0].error_code)
    question = OffsetFetchRequest(
        group_id=group, topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[0])], require_stable=True
    )
    answer = client.call(question, 7, OffsetFetchResponse).topics[0].partitions[0]
    assert (answer.error_code, answer.committed_offset) == (0, offset)


def _transact(client: WireClient, name: str, topic: str) -> None:
    producer = InitProducerIdResponse()

    def begin() -> int:
        nonlocal producer
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
        producer = client.call(request, 4, InitProducerIdResponse)
        return producer.error_code

    def add() -> int:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[0])],
        )
        reply = client.call(request, 3, AddPartitionsToTxnResponse)
        return reply.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code

    def commit() -> int:
        request = EndTxnRequest(
            transactional_id=name,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=True,
        )
        return client.call(request, 3, EndTxnResponse).error_code

    for step in (begin, add, commit):
        _succeed(step)


class BrokerLog:
    """Reads a broker's log as it grows, and keeps the lines that no client may cause, the same ones counted."""

    _PEER = re.compile(r"127\.0\.0\.1:(\d+)")
    _FRAME = re.compile(r'  File ".*/ottla/(.*)", line (\d+), in (\w+)')
    _ERROR = re.compile(r"\[[^]]*\] (ERROR|CRITICAL) ")
    """At the start of a line only. A client that gets a line break into the log can forge such a line, and is found."""
    _NUMBERS = re.compile(r"\d+")

    def __init__(self, path: Path) -> None:
        self._file = path.open(errors="replace")
        self._rest = ""
        self._traceback: list[str] | None = None
        self._peer: int | None = None
        self.closings: Counter[str] = Counter()
        """Why connections were closed."""
        self.tracebacks: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.held: Counter[str] = Counter()
        """What held the event loop, and where."""
        self.longest_holds: dict[str, int] = {}
        """How long, in milliseconds."""
        self.culprits: dict[str, int] = {}
        """By what was logged: the port of a connection whose request caused it."""

    def read(self) -> None:
        *lines, self._rest = (self._rest + self._file.read()).split("\n")
        for line in lines:
            self._take(line)

    def _take(self, line: str) -> None:
        if self._traceback is not None:
            self._take_traceback(line, self._traceback)
        elif line.startswith("Traceback"):
            self._traceback = []
        elif HELD in line:
            milliseconds, _, cause = line.partition(HELD)[2].partition(" ms ")
            self._peer = int(peer[1]) if (peer := self._PEER.search(cause)) else None
            cause = self._PEER.sub("a client", cause)
            self._count(self.held, cause)
            self.longest_holds[cause] = max(self.longest_holds.get(cause, 0), int(milliseconds))
        elif self._ERROR.match(line) and not any(known in line for known in _CLIENTS_MAY_CAUSE):
            self._peer = int(peer[1]) if (peer := self._PEER.search(line)) else None
            self._count(self.errors, self._NUMBERS.sub("N", line.partition("] ")[2]))
        elif "closing the connection of" in line:
            reason = line.partition("closing the connection of")[2].partition(": ")[2]
            self.closings[self._NUMBERS.sub("N", reason)[:80]] += 1

    def _take_traceback(self, line: str, frames: list[str]) -> None:
        if found := self._FRAME.match(line):
            frames.append(f"{found[1]}:{found[2]} {found[3]}")
        elif line and not line.startswith(" "):
            self._count(self.tracebacks, f"{self._NUMBERS.sub('N', line)[:200]} ({', '.join(reversed(frames[-4:]))})")
            self._traceback = None

    def _count(self, counter: Counter[str], text: str) -> None:
        counter[text] += 1
        if self._peer is not None:
            self.culprits.setdefault(text, self._peer)

    def close(self) -> None:
        self._file.close()
