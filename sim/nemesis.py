"""Injects faults that begin and end at moments chosen by the seed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from sim.cluster import Cluster, Machine
from sim.inspection import partition_states
from sim.store import STORE_HOST

if TYPE_CHECKING:
    from sim.clients import SimClient

_AT_ONCE = 3
"""Maximum number of concurrent faults."""


class Nemesis:
    def __init__(self, cluster: Cluster, clients: Sequence[SimClient], members: Sequence[SimClient]) -> None:
        self._cluster = cluster
        self._network = cluster.network
        self._hosts = [client.name for client in [*clients, *members]]
        self._members = members
        self._chance = random.Random(f"{cluster.plan.seed} nemesis")
        self._loop = cluster.new_process("nemesis")
        self._ending: dict[int, Callable[[], None]] = {}
        self._count = 0
        self._is_over = False
        self._tainted: set[str] = set()
        """Machines that lost their data, or their unsynced data, and are still in an ISR. Until they have left it, no
        other fault happens: unsynced records are safe only as long as another in-sync replica is healthy."""
        self._faults: list[tuple[int, Callable[[], Callable[[], None] | None]]] = [
            (4, self._kill),
            (3, self._lose_power),
            (1, self._lose_disk),
            (2, self._die_while_writing),
            (2, self._stop),
            (3, self._freeze),
            (2, self._freeze_member),
            (3, self._isolate_from_brokers),
            (2, self._isolate_from_store),
            (2, self._isolate),
            (2, self._cut_one_way),
            (2, self._slow_link),
            (2, self._slow_disk),
            (1, self._full_disk),
            (1, self._wrong_clock),
            (1, self._reset),
        ]

    def start(self) -> None:
        for machine in self._cluster.machines:
            machine.rate = self._chance.uniform(0.97, 1.03)
            machine.skew_ms = self._chance.randint(-60_000, 60_000)
        self._cluster.ensemble.listeners.append(self._look_at_tainted)
        self._loop.call_soon(lambda: self._loop.create_task(self._run()))

    def heal(self) -> None:
        """End all faults and start all machines."""
        self._is_over = True
        for end in list(self._ending.values()):
            end()
        for machine in self._cluster.machines:
            machine.disk.steps_left = None
            machine.start()

    async def _run(self) -> None:
        # Each seed uses only some kinds of faults, so that bugs that need many faults of one kind are found too.
        chosen = [it for it in self._faults if self._chance.random() < 0.6] or self._faults
        kinds = [fault for weight, fault in chosen for _ in range(weight)]
        while not self._is_over:
            await asyncio.sleep(self._chance.expovariate(1.0))
            # A machine that lost data leaves every ISR before it becomes ready.
            self._tainted -= {machine.name for machine in self._cluster.machines if machine.is_ready}
            if self._is_over or self._tainted or len(self._ending) >= _AT_ONCE:
                continue
            end = self._chance.choice(kinds)()
            if end is not None:
                self._end_later(end)

    def _end_later(self, end: Callable[[], None]) -> None:
        number = self._count = self._count + 1
        self._ending[number] = partial(self._finish, number, end)
        self._cluster.scheduler.after(self._chance.choice([0.3, 1.0, 2.5, 5.0]), partial(self._finish, number, end))

    def _finish(self, number: int, end: Callable[[], None]) -> None:
        if self._ending.pop(number, None) is not None:
            end()

    def _machine(self) -> Machine:
        return self._chance.choice(self._cluster.machines)

    # Machines

    def _kill(self) -> Callable[[], None] | None:
        machine = self._machine()
        if not machine.is_running:
            return None
        machine.crash(power_fails=False)
        return machine.start

    def _lose_power(self) -> Callable[[], None] | None:
        machine = self._machine()
        if not machine.is_running:
            return None
        if not self._cluster.plan.durable:
            if self._ending or not self._others_have_all(machine):
                return None
            self._tainted.add(machine.name)
        machine.crash(power_fails=True)
        self._look_at_tainted()
        return machine.start

    def _lose_disk(self) -> Callable[[], None] | None:
        """Synced data is lost too, so other in-sync replicas must have all of it."""
        machine = self._machine()
        if not machine.is_running or self._ending or not self._others_have_all(machine):
            return None
        self._tainted.add(machine.name)
        machine.lose_disk()
        self._look_at_tainted()
        return machine.start

    def _others_have_all(self, machine: Machine) -> bool:
        well = {it.broker_id for it in self._cluster.machines if it is not machine and it.is_ready}
        return all(well & set(state.isr) for state in partition_states(self._cluster.ensemble.tree).values())

    def _look_at_tainted(self) -> None:
        if self._tainted:
            states = partition_states(self._cluster.ensemble.tree).values()
            listed = {f"broker{broker_id}" for state in states for broker_id in state.isr}
            self._tainted &= listed

    def _die_while_writing(self) -> Callable[[], None] | None:
        machine = self._machine()
        if not machine.is_running:
            return None
        machine.disk.steps_left = self._chance.randint(0, 30)
        return partial(self._revive, machine)

    def _revive(self, machine: Machine) -> None:
        machine.disk.steps_left = None
        machine.start()

    def _stop(self) -> Callable[[], None] | None:
        machine = self._machine()
        if not machine.is_ready:
            return None
        machine.stop()
        return machine.start

    def _freeze(self) -> Callable[[], None] | None:
        machine = self._machine()
        if not machine.is_running:
            return None
        machine.freeze()
        return machine.thaw

    def _freeze_member(self) -> Callable[[], None] | None:
        """Pause a member. When it resumes, other members own its partitions, and it does not know it yet."""
        if not self._members:
            return None
        member = self._chance.choice(self._members)
        self._cluster.note(member.name, "is paused")
        member.loop.hold()
        return member.loop.release

    # Links

    def _isolate_from_brokers(self) -> Callable[[], None]:
        return self._cut(self._machine().name, [machine.name for machine in self._cluster.machines])

    def _isolate_from_store(self) -> Callable[[], None]:
        return self._cut(self._machine().name, [STORE_HOST])

    def _isolate(self) -> Callable[[], None]:
        """Isolate a machine from all hosts, clients included."""
        others = [machine.name for machine in self._cluster.machines]
        return self._cut(self._machine().name, [*others, *self._hosts, STORE_HOST])

    def _cut(self, host: str, others: list[str]) -> Callable[[], None]:
        pairs = [pair for other in others if other != host for pair in ((host, other), (other, host))]
        return self._cut_pairs(pairs)

    def _cut_one_way(self) -> Callable[[], None]:
        one, other = self._chance.sample([*(it.name for it in self._cluster.machines), STORE_HOST], 2)
        return self._cut_pairs([(one, other)])

    def _cut_pairs(self, pairs: list[tuple[str, str]]) -> Callable[[], None]:
        self._cluster.note("cut:", pairs)
        for pair in pairs:
            self._network.cut(*pair)
        return partial(self._mend, pairs, self._chance.random() < 0.5)

    def _mend(self, pairs: list[tuple[str, str]], forgotten: bool) -> None:
        self._cluster.note("mended:", pairs)
        for pair in pairs:
            if forgotten:
                self._network.reset(*pair)
            self._network.mend(*pair)

    def _slow_link(self) -> Callable[[], None]:
        host = self._machine().name
        self._cluster.note(host, "has a slow link")
        self._network.slow_down(host, self._chance.choice([0.05, 0.3, 1.0]))
        return partial(self._network.speed_up, host)

    def _reset(self) -> None:
        one, other = self._chance.sample([*(it.name for it in self._cluster.machines), *self._hosts], 2)
        self._network.reset(one, other)

    # Disks and clocks

    def _slow_disk(self) -> Callable[[], None]:
        machine = self._machine()
        self._cluster.note(machine.name, "has a slow disk")
        machine.disk.sync_seconds = self._chance.choice([0.1, 1.0, 3.0])
        return lambda: setattr(machine.disk, "sync_seconds", 0.001)

    def _full_disk(self) -> Callable[[], None]:
        machine = self._machine()
        self._cluster.note(machine.name, "has a full disk")
        machine.disk.room = self._chance.choice([0, 100, 1000])
        return lambda: setattr(machine.disk, "room", None)

    def _wrong_clock(self) -> None:
        machine = self._machine()
        machine.set_clock(self._chance.randint(-300_000, 300_000))
