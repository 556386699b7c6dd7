"""The machines of a simulated cluster. A broker can be started, killed, paused and stopped."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.config.broker import BrokerConfig
from ottla.server.broker import BrokerServer, ShutdownError, StartupError, World
from sim.disk import SimBackground, SimDisk
from sim.loop import ProcessClock, ProcessLoop, Scheduler
from sim.network import Network, ProcessNetwork
from sim.plan import SESSION_SECONDS, Plan
from sim.store import Ensemble, SimStore

if TYPE_CHECKING:
    from ottla.controller.controller import Controller
    from ottla.handlers.context import Broker
    from ottla.metadata.cluster_metadata import ClusterMetadata
    from ottla.server.roles import Roles
    from ottla.store.interface import Store
    from sim.trace import Trace

BROKERS = (1, 2, 3)


class ObservedServer(BrokerServer):
    """Gives the checks access to the broker."""

    broker: Broker | None = None

    def _assemble(
        self, cluster_id: str, store: Store, metadata: ClusterMetadata, controller: Controller
    ) -> tuple[Broker, Roles]:
        self.broker, roles = super()._assemble(cluster_id, store, metadata, controller)
        return self.broker, roles


class Machine:
    """The host of one broker. Its disk and clock survive the process."""

    def __init__(self, cluster: Cluster, broker_id: int) -> None:
        self.broker_id = broker_id
        self.name = f"broker{broker_id}"
        self.disk = SimDisk()
        self.skew_ms = 0
        self.rate = 1.0
        self.is_running = False
        self.is_ready = False
        self.server: ObservedServer | None = None
        self.loop: ProcessLoop | None = None
        self.clock: ProcessClock | None = None
        self.started_at = 0.0
        self._cluster = cluster
        self._chance = random.Random(f"{cluster.plan.seed} {self.name}")
        self._boots = 1
        self._is_stopping = self._start_again = False

    @property
    def broker(self) -> Broker | None:
        return self.server.broker if self.server is not None and self.is_running else None

    def start(self) -> None:
        if self.is_running:
            self._start_again = self._is_stopping
            return
        cluster = self._cluster
        self._is_stopping = self._start_again = False
        cluster.note(self.name, "starts")
        self.started_at = cluster.scheduler.now
        cluster.network.power_on(self.name)
        self.disk = self.disk.next()
        self.disk.now_ms = round(cluster.scheduler.now * 1000)
        self.disk.on_last_step = lambda: self.crash(power_fails=False)
        loop = self.loop = cluster.new_process(self.name)
        loop.rate = self.rate
        clock = self.clock = ProcessClock(loop)
        clock.skew_ms = self.skew_ms
        workers = SimBackground(cluster.scheduler, loop, self.disk, self._chance)
        world = World(
            clock=clock,
            disk=self.disk,
            network=ProcessNetwork(cluster.network, loop),
            syncs=workers,
            chores=workers,
            inspections=workers,
            lookups=workers,
            store_work=workers,
            loads=workers,
            closing=workers,
            random=self._chance,
            boot_id=f"boot {self._boots}",
            store=lambda: SimStore(cluster.ensemble, loop, clock, SESSION_SECONDS),
        )
        self.server = ObservedServer(BrokerConfig(cluster.plan.broker_settings(self.broker_id)), world)
        self.is_running, self.is_ready = True, False
        loop.call_soon(lambda: loop.create_task(self._run(loop, self.server)))

    async def _run(self, loop: ProcessLoop, server: ObservedServer | None) -> None:
        assert server is not None
        try:
            await server.start()
        except StartupError as error:
            self._cluster.note(self.name, "cannot start:", error)
            self._exit(loop)
            self._cluster.scheduler.after(1.0, self.start)
        else:
            self._cluster.note(self.name, "is ready")
            self.is_ready = True

    def crash(self, *, power_fails: bool) -> None:
        """Kill the process at any point. If the power fails, unsynced data is lost too."""
        if not self.is_running or self.loop is None:
            return
        self._cluster.note(self.name, "loses power" if power_fails else "is killed")
        if power_fails:
            self._cluster.network.power_off(self.name)
        self._exit(self.loop)
        if power_fails:
            self.disk.power_fails(self._chance)
            self._boots += 1

    def lose_disk(self) -> None:
        """Crash and replace the disk by an empty one."""
        self.crash(power_fails=True)
        self._cluster.note(self.name, "loses its disk")
        self.disk = SimDisk()

    def _exit(self, loop: ProcessLoop) -> None:
        if self.loop is loop and self.is_running:
            self.is_running = self.is_ready = False
            self.disk.is_gone = True
            loop.kill()
            self._cluster.network.process_died(loop)

    def stop(self) -> None:
        """Stop the broker cleanly, as an operator does."""
        loop, server = self.loop, self.server
        if not self.is_ready or loop is None or server is None or loop.held is not None:
            return
        self._cluster.note(self.name, "is told to stop")
        self.is_ready, self._is_stopping = False, True
        loop.call_soon(lambda: loop.create_task(self._stop(loop, server)))

    async def _stop(self, loop: ProcessLoop, server: ObservedServer) -> None:
        try:
            await server.stop()
        except ShutdownError as error:
            self._cluster.note(self.name, "failed to stop cleanly:", error)
        self._cluster.note(self.name, "has stopped")
        self._exit(loop)
        if self._start_again:
            self.start()

    def set_clock(self, skew_ms: int) -> None:
        self.skew_ms = skew_ms
        if self.clock is not None:
            self.clock.skew_ms = skew_ms

    def freeze(self) -> None:
        if self.loop is not None and self.is_running:
            self._cluster.note(self.name, "is paused")
            self.loop.hold()

    def thaw(self) -> None:
        if self.loop is not None and self.loop.held is not None:
            self._cluster.note(self.name, "resumes")
            self.loop.release()


class Cluster:
    def __init__(self, plan: Plan, trace: Trace) -> None:
        self.plan = plan
        self.trace = trace
        self.scheduler = Scheduler()
        self.network = Network(self.scheduler, random.Random(f"{plan.seed} network"), trace)
        self.ensemble = Ensemble(self.network, SESSION_SECONDS)
        self.machines = [Machine(self, broker_id) for broker_id in BROKERS]
        self.processes: list[ProcessLoop] = []

    def note(self, *what: object) -> None:
        self.trace.note(self.scheduler.now, *what)

    def new_process(self, name: str) -> ProcessLoop:
        loop = ProcessLoop(self.scheduler, name, self.network)  # type: ignore[abstract]
        self.processes.append(loop)
        return loop

    def run_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        return self.scheduler.run_until(condition, self.scheduler.now + seconds)

    def run_for(self, seconds: float) -> None:
        self.run_until(lambda: False, seconds)
