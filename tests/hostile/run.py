"""One run: a broker, a bystander and hostile clients, and then the checks."""

import contextlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ottla.model import TopicId
from ottla.wire.api.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tests.compat.processes import BrokerProcess
from tests.hostile import checks, driver
from tests.hostile.batches import Prebuilt
from tests.hostile.bystander import Report
from tests.hostile.clients import (
    ABANDONED,
    CONNECTIONS,
    LEFT_OPEN,
    SURVIVED,
    DamagedClient,
    HostileClient,
    Shared,
    WellFormedClient,
)
from tests.hostile.damage import Damage
from tests.hostile.requests import Requests
from tests.hostile.values import STABLE_TOPICS, World
from tests.server.wire_client import WireClient, is_served

COORDINATOR_PARTITIONS = 8
SETTINGS = {
    "offsets.topic.num.partitions": str(COORDINATOR_PARTITIONS),
    "transaction.state.log.num.partitions": str(COORDINATOR_PARTITIONS),
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "connections.max.idle.ms": "5000",
}
"""A connection that waits for its reply and has sent more requests is not read, so the broker notices only by the idle
time that its client has gone."""
MAX_MEMORY = 400 << 20
MAX_SILENCE = 1.0
_SETTLE_SECONDS = 30.0
_CHECK_TOPIC = "plain"
_SHOWN = 8
_SHOWN_HEX = 3000

_GOOD_REASON = re.compile(r"Produce with acks=|elements|bytes")
"""A failed Produce that wants no reply, and requests that are too large."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    requests: int
    """Well-formed ones, and as many damaged ones."""
    connections: int = 24
    seconds: float = 3600.0
    """When to give up."""
    max_hold_ms: int = 0
    """The watchdog may speak of holds up to this length."""


@dataclass(slots=True)
class Outcome:
    findings: list[str] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)


class WatchedBroker(BrokerProcess):
    """A broker whose memory and files can be looked at."""

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def memory(self, line: str) -> int:
        """VmRSS is the resident memory now, VmHWM the most there ever was."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return next(int(text.split()[1]) * 1024 for text in status.splitlines() if text.startswith(line))

    def cpu(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def open_files(self) -> tuple[int, int]:
        """Sockets, and everything else."""
        sockets = others = 0
        for entry in Path(f"/proc/{self.pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if str(entry.readlink()).startswith("socket:"):
                    sockets += 1
                else:
                    others += 1
        return sockets, others


class Run:
    def __init__(self, plan: Plan, directory: Path, say: Say) -> None:
        self._plan = plan
        self._say = say
        self._broker = WatchedBroker(directory / "data", SETTINGS)
        self._outcome = Outcome()
        self._evidence: dict[str, str] = {}
        """By what was logged: the requests that were sent before."""
        self.bystander = Report()
        self._deadline = time.monotonic() + plan.seconds

    def run(self) -> Outcome:
        broker = self._broker
        broker.start()
        try:
            self._log = checks.BrokerLog(broker.log_path)
            self._shared = Shared(broker.bootstrap_servers)
            self._world = World(_create_topics(broker.bootstrap_servers))
            self._check_coordinators()
            sockets, _ = broker.open_files()
            with self._bystander():
                self._attack("well-formed", self._well_formed_clients())
                self._check_closings()
                self._attack("damaged", self._damaged_clients())
                self._shared.close()
            self._check_coordinators()
            self._check_open_files(sockets)
            self._check_the_rest()
            self._log.close()
        finally:
            broker.kill()
        return self._outcome

    def _well_formed_clients(self) -> list[HostileClient]:
        batches = Prebuilt()
        clients: list[HostileClient] = []
        for seed, count in self._shares():
            requests = Requests(f"requests {seed}", self._world, batches)
            clients.append(WellFormedClient(f"well-formed {seed}", self._shared, count, requests, self._world))
        return clients

    def _damaged_clients(self) -> list[HostileClient]:
        batches = Prebuilt()
        clients: list[HostileClient] = []
        for seed, count in self._shares():
            damage = Damage(f"damage {seed}", Requests(f"damaged requests {seed}", self._world, batches))
            clients.append(DamagedClient(f"damaged {seed}", self._shared, count, damage))
        return clients

    def _shares(self) -> Iterator[tuple[str, int]]:
        """A seed for each connection, and how many requests it sends."""
        plan = self._plan
        for number in range(plan.connections):
            share = (plan.requests + number) // plan.connections
            yield f"{plan.seed} {number}", share

    def _attack(self, kind: str, clients: list[HostileClient]) -> None:
        total, began, cpu = self._plan.requests, time.monotonic(), self._broker.cpu()

        def tick() -> bool:
            sent = total - sum(client.left for client in clients)
            rate = sent / (time.monotonic() - began)
            memory = self._broker.memory("VmRSS") >> 20
            self._read_log()
            self._say(f"{sent} of {total} {kind} requests, {rate:.0f} a second, the broker has {memory} MB")
            return self._goes_on()

        driver.run(clients, tick)
        self._read_log()
        seconds, used = time.monotonic() - began, self._broker.cpu() - cpu
        left = sum(client.left for client in clients)
        self._outcome.facts.append(
            f"{total - left} {kind} requests in {seconds:.0f} s, {(total - left) / seconds:.0f} a second; "
            f"the broker used {used:.0f} s of processor time"
        )
        if left:
            self._outcome.findings.append(f"{left} {kind} requests were not sent")

    def _check_closings(self) -> None:
        """A broker has few reasons to close the connection of a client whose requests are well-formed."""
        for reason, count in self._log.closings.items():
            if not _GOOD_REASON.search(reason):
                self._outcome.findings.append(f"{count} well-formed requests closed their connection: {reason}")

    def _goes_on(self) -> bool:
        if not self._broker.runs():
            self._outcome.findings.append("the broker has ended")
            return False
        if self._broker.memory("VmRSS") > 4 * MAX_MEMORY:
            self._outcome.findings.append("the broker's memory grows without a bound; the run was ended")
            return False
        return time.monotonic() < self._deadline

    @contextlib.contextmanager
    def _bystander(self) -> Iterator[None]:
        arguments = [sys.executable, "-m", "tests.hostile.bystander", self._broker.bootstrap_servers]
        process = subprocess.Popen(
            [*arguments, str(self._broker.pid)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "started\n"
            yield
            written, _ = process.communicate(timeout=180)
            self.bystander = Report(**json.loads(written))
            self._judge(self.bystander)
        finally:
            process.kill()
            process.wait()

    def _judge(self, report: Report) -> None:
        outcome = self._outcome
        outcome.facts.append(
            f"bystander: {report.rounds} rounds of produce, consume and commit; the longest wait was "
            f"{report.longest:.3f} s, without the waits for a processor {report.longest_of_broker:.3f} s "
            f"({report.longest_operation}); {report.disconnects} disconnects"
        )
        if report.disconnects:
            outcome.findings.append(f"{report.disconnects} connections of the bystander were cut")
        if report.longest_of_broker > MAX_SILENCE:
            outcome.findings.append(f"the bystander waited {report.longest_of_broker:.3f} s for the broker")
        outcome.findings += [f"bystander: {error}" for error in report.errors[:_SHOWN]]

    def _check_coordinators(self) -> None:
        bootstrap = self._broker.bootstrap_servers
        for check in (checks.commit_in_every_partition, checks.transact_in_every_partition):
            self._outcome.findings += check(bootstrap, _CHECK_TOPIC, COORDINATOR_PARTITIONS)

    def _check_open_files(self, sockets_before: int) -> None:
        deadline = time.monotonic() + _SETTLE_SECONDS
        while (now := self._broker.open_files())[0] > sockets_before and time.monotonic() < deadline:
            time.sleep(0.1)
        sockets, others = now
        segments = sum(1 for _ in self._broker.data_dir.glob("*/*.log"))
        self._outcome.facts.append(
            f"open sockets: {sockets_before} before, {sockets} after; {others} other files for {segments} segments"
        )
        if sockets > sockets_before:
            self._outcome.findings.append(f"{sockets - sockets_before} sockets were left open")
        if others > 50 + 4 * segments:
            self._outcome.findings.append(f"{others} files are open for {segments} segments")

    def _check_the_rest(self) -> None:
        outcome, log, broker = self._outcome, self._log, self._broker
        self._read_log()
        if not is_served(broker.bootstrap_servers):
            outcome.findings.append("a new client is not served")
        peak = broker.memory("VmHWM")
        outcome.facts.append(f"the broker's memory: {broker.memory('VmRSS') >> 20} MB, at most {peak >> 20} MB")
        if peak > MAX_MEMORY:
            outcome.findings.append(f"the broker had {peak >> 20} MB; the bound is {MAX_MEMORY >> 20} MB")
        for what, lines in (("tracebacks", log.tracebacks), ("errors", log.errors)):
            outcome.facts.append(f"{what} in the broker's log: {lines.total()}")
            for line, count in lines.most_common(_SHOWN):
                outcome.findings.append(f"{what}: {count} x {line}{self._sent_before(line)}")
        self._check_holds()
        outcome.findings += self._shared.findings[:_SHOWN]
        counts = self._shared.counts
        outcome.facts.append(
            ", ".join(f"{counts[what]} {what}" for what in (CONNECTIONS, LEFT_OPEN, ABANDONED, SURVIVED))
        )
        closings = ", ".join(f"{count} x {reason!r}" for reason, count in log.closings.most_common(12))
        outcome.facts.append(f"closed: {closings}")

    def _check_holds(self) -> None:
        longest = sorted(self._log.longest_holds.items(), key=lambda hold: -hold[1])
        self._outcome.facts.append(f"the watchdog spoke {self._log.held.total()} times")
        for cause, milliseconds in longest[:_SHOWN]:
            line = f"the event loop was held for {milliseconds} ms {cause}"
            if milliseconds > self._plan.max_hold_ms:
                self._outcome.findings.append(line + self._sent_before(cause))
            else:
                self._outcome.facts.append(line)

    def _read_log(self) -> None:
        """Keep what was sent over the connections that the log names, before their history is dropped."""
        self._log.read()
        for line, port in self._log.culprits.items():
            if line not in self._evidence:
                sent = self._shared.histories.get(port, ())
                self._evidence[line] = " ".join(data.hex()[:_SHOWN_HEX] for data in sent)

    def _sent_before(self, line: str) -> str:
        evidence = self._evidence.get(line)
        return f"; sent over that connection, the last at the end: {evidence}" if evidence else ""


def _create_topics(bootstrap: str) -> dict[str, TopicId]:
    topics = [
        CreatableTopic(
            name=name,
            num_partitions=2,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in config.items()],
        )
        for name, config in STABLE_TOPICS.items()
    ]
    with WireClient(bootstrap) as client:
        reply = client.call(CreateTopicsRequest(topics=topics, timeout_ms=30_000), 7, CreateTopicsResponse)
    assert not any(result.error_code for result in reply.topics), reply
    return {result.name: result.topic_id for result in reply.topics}
