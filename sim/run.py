"""One run: start a cluster and its clients, inject faults, let the cluster recover, and check the guarantees."""

from __future__ import annotations

import gc
import logging
from asyncio import events
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TextIO

from ottla.errors import KafkaError
from ottla.log import directory
from ottla.model import TopicPartition
from sim.checks import LeaderEpochs, check_commits, check_logs
from sim.clients import Admin, Auditor, Committer, Consumer, Producer, SimClient
from sim.cluster import BROKERS, Cluster
from sim.disk import InlineThreads
from sim.group_checks import check_group, check_worked
from sim.history import History
from sim.inspection import is_level, partition_states
from sim.loop import ProcessLoop
from sim.members import LastLook, Member, Observer, Worker
from sim.nemesis import Nemesis
from sim.plan import TOPIC, Plan, make_plan
from sim.trace import Trace
from sim.transactions import CommittedReader, Copier

_START_SECONDS = 30.0
_HEAL_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Result:
    seed: int
    violations: list[str]
    digest: str
    events: int
    acknowledged: int
    virtual_seconds: float


class _BrokerLog(logging.Handler):
    """Writes the brokers' logs to the trace. An unexpected exception is a violation."""

    def __init__(self, cluster: Cluster, history: History, verbose: bool) -> None:
        super().__init__(logging.INFO if verbose else logging.WARNING)
        self._cluster = cluster
        self._history = history
        self._verbose = verbose

    def emit(self, record: logging.LogRecord) -> None:
        loop = events._get_running_loop()
        if isinstance(loop, ProcessLoop) and loop.dead:
            return
        name = loop.name if isinstance(loop, ProcessLoop) else "?"
        if self._verbose:
            self._cluster.note(name, record.levelname, self.format(record))
        if record.exc_info and not isinstance(record.exc_info[1], KafkaError):
            self._history.violations.append(f"{name}: {record.getMessage()}: {record.exc_info[1]!r}")


class Run:
    def __init__(self, plan: Plan, out: TextIO | None = None) -> None:
        self.plan = plan
        self.trace = Trace(out)
        self.cluster = Cluster(plan, self.trace)
        self.history = History()
        self.admin = Admin(self.cluster, self.history, "admin")
        self.clients: list[SimClient] = [
            *(Producer(self.cluster, self.history, f"producer{i}") for i in range(plan.producers)),
            *(Consumer(self.cluster, self.history, f"consumer{i}") for i in range(plan.consumers)),
            Committer(self.cluster, self.history, "committer"),
        ]
        self.members = [self._member(f"member{i}", i) for i in range(plan.members)]
        self.watchers = self._watchers()
        self.nemesis = Nemesis(self.cluster, [*self.clients, *self.watchers], self.members)
        self._epochs = LeaderEpochs(self.cluster, self.history)

    def _member(self, name: str, number: int) -> Member:
        if not self.plan.copies:
            return Worker(self.cluster, self.history, name)
        transactional_id = "copier" if self.plan.shared_id and number < 2 else f"copier{number}"
        return Copier(self.cluster, self.history, name, transactional_id)

    def _watchers(self) -> list[SimClient]:
        found: list[SimClient] = []
        if self.plan.members:
            found.append(Observer(self.cluster, self.history, "observer"))
        if self.plan.copies:
            found.append(CommittedReader(self.cluster, self.history, "reader"))
        return found

    def execute(self) -> None:
        self.nemesis.start()
        self.cluster.ensemble.listeners.append(self._epochs.look)
        for machine in self.cluster.machines:
            machine.start()
        self.admin.start()
        if not self.cluster.run_until(lambda: self.admin.is_done, _START_SECONDS):
            self._fail("the topic could not be created")
            return
        for client in [*self.clients, *self.members, *self.watchers]:
            client.start()
        self.cluster.run_for(self.plan.chaos_seconds)
        self._heal()

    def _heal(self) -> None:
        cluster = self.cluster
        cluster.note("all faults end")
        self.nemesis.heal()
        cluster.run_for(2.0)
        if not (
            self._within("every broker is ready", lambda: all(machine.is_ready for machine in cluster.machines))
            and self._finish(self.clients)
            and self._within("all replicas are in sync", self._all_in_sync)
            and self._finish(self.members)
            and self._finish(self.watchers)
        ):
            return
        auditor = Auditor(cluster, self.history, "auditor")
        auditor.start()
        cluster.run_until(lambda: auditor.is_done, _HEAL_SECONDS)
        last_look = LastLook(cluster, self.history, "last look")
        if self.plan.members:
            last_look.start()
            cluster.run_until(lambda: last_look.is_done, _HEAL_SECONDS)
        cluster.run_for(1.5)
        # The coordinator may remove a dead member just now, which appends records.
        cluster.run_until(lambda: is_level(cluster), _HEAL_SECONDS)
        self.history.violations += check_commits(self.history, auditor.found)
        if self.plan.members:
            self._check_group(last_look.found)
        self.history.violations += check_logs(cluster, self.history)

    def _finish(self, clients: Sequence[SimClient]) -> bool:
        for client in clients:
            client.stopping = True
        names = ", ".join(client.name for client in clients)
        return self._within(f"done: {names}", lambda: all(client.is_done for client in clients))

    def _within(self, what: str, condition: Callable[[], bool]) -> bool:
        if self.cluster.run_until(condition, _HEAL_SECONDS):
            return True
        everybody = [*self.clients, *self.members, *self.watchers]
        waiting = [client.name for client in everybody if client.stopping and not client.is_done]
        self._fail(f"not reached within {_HEAL_SECONDS:g} s after the faults ended: {what}; waiting: {waiting}")
        return False

    def _check_group(self, found: dict[int, int] | None) -> None:
        if found is None:
            self._fail("the group's offsets could not be read")
            return
        acknowledged = self.history.acknowledged
        partitions = [TopicPartition(TOPIC, index) for index in range(self.plan.partitions)]
        ends = {partition: max(acknowledged.get(partition, ()), default=-1) + 1 for partition in partitions}
        self.history.violations += check_group(self.history.group, found, ends)
        if not self.plan.copies:
            self.history.violations += check_worked(self.history.group, ends)

    def _all_in_sync(self) -> bool:
        return all(
            set(state.isr) == set(BROKERS) and state.leader in BROKERS
            for state in partition_states(self.cluster.ensemble.tree).values()
        )

    def _fail(self, text: str) -> None:
        self.history.violations.append(text)

    def result(self) -> Result:
        violations = list(self.history.violations)
        for loop in self.cluster.processes:
            violations += [f"{loop.name}: {it.get('message')}: {it.get('exception')!r}" for it in loop.unhandled]
        acknowledged = sum(map(len, self.history.acknowledged.values()))
        return Result(
            self.plan.seed, violations, self.trace.digest, self.trace.events, acknowledged, self.cluster.scheduler.now
        )


def run_seed(seed: int, out: TextIO | None = None) -> Result:
    run = Run(make_plan(seed), out)
    handler = _BrokerLog(run.cluster, run.history, out is not None)
    logger = logging.getLogger("ottla")
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    logger.setLevel(handler.level)
    gc.disable()
    directory.ThreadPoolExecutor = InlineThreads  # type: ignore[attr-defined, assignment]
    try:
        run.execute()
        return run.result()
    finally:
        for loop in run.cluster.processes:
            loop.bury()
        del run
        gc.enable()
        directory.ThreadPoolExecutor = ThreadPoolExecutor  # type: ignore[attr-defined]
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate
