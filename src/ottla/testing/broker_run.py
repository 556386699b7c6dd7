"""One run of a broker, from its start to its stop or its sudden end, in a thread of this process."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.config.broker import BrokerConfig
from ottla.env.clock import SystemClock
from ottla.env.disk import OsDisk
from ottla.server.broker import BrokerServer, World
from ottla.server.event_loop import new_event_loop
from ottla.server.stores import new_store
from ottla.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from ottla.env.network import Address
    from ottla.handlers.registry import Served
    from ottla.store.interface import Store
    from ottla.testing.clock import BrokerClock, TravelClock


class BrokerRun:
    """Use it from one thread. `start` returns when clients can connect. After `stop` or `kill` it is of no use."""

    def __init__(
        self, name: str, settings: Mapping[str, str], clock: TravelClock, handlers: Mapping[int, Served]
    ) -> None:
        self.addresses: dict[str, Address] = {}
        self._settings = settings
        self._travel_clock = clock
        self._handlers = handlers
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: BrokerServer | None = None
        self._world: World | None = None
        self._store: Store | None = None
        self._clock: BrokerClock | None = None
        self._disk = _LockingDisk()
        self._ready = threading.Event()
        self._ended = asyncio.Event()
        self._killed = False
        self._paused = threading.Event()
        self._may_run = threading.Event()
        self._may_run.set()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    # For the thread of the test

    def start(self) -> None:
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            self._join()

    def stop(self) -> None:
        """Stop cleanly."""
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._ended.set)
        self._may_run.set()
        self._join()

    def kill(self) -> None:
        """End like a process that gets SIGKILL: nothing is synced, marked as clean, or handed over to other brokers."""
        self._killed = True
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._die)
        self._may_run.set()
        self._join()

    def pause(self) -> None:
        """Stop the event loop, like SIGSTOP: the kernel accepts connections and data, and the broker does nothing."""
        if self._loop is not None and self._may_run.is_set():
            self._may_run.clear()
            self._paused.clear()
            self._loop.call_soon_threadsafe(self._hold)
            self._paused.wait()

    def resume(self) -> None:
        self._may_run.set()

    @property
    def is_paused(self) -> bool:
        return not self._may_run.is_set()

    def _join(self) -> None:
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    # For the broker's thread

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:
            self._failure = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock = self._travel_clock.attach()
        try:
            config = BrokerConfig(self._settings)
            world = self._world = World(clock=self._clock, disk=self._disk)
            world.store = lambda: self._open_store(config, world)
            server = self._server = BrokerServer(config, world, self._handlers)
            await server.start()
            self.addresses = server.addresses
            server.watchdog.start()
            self._ready.set()
            await self._ended.wait()
            if not self._killed:
                server.watchdog.stop()
                await server.stop()
        finally:
            self._travel_clock.detach(self._clock)

    def _open_store(self, config: BrokerConfig, world: World) -> Store:
        """The store keeps the system's time: a broker whose clock is advanced must not lose its session."""
        self._store = new_store(config, replace(world, clock=SystemClock(), store=None))
        return self._store

    def _hold(self) -> None:
        self._paused.set()
        self._may_run.wait()
        if self._killed:
            self._die()

    def _die(self) -> None:
        if self._ended.is_set():
            return
        assert self._loop is not None
        assert self._server is not None
        assert self._world is not None
        assert self._clock is not None
        # The tasks of the dead broker are cancelled after this. Their errors are no concern of the test.
        self._loop.set_exception_handler(lambda _loop, _context: None)
        self._server.watchdog.stop()
        self._server.hang_up()
        self._clock.cancel_all()
        world = self._world
        for workers in (
            world.syncs,
            world.chores,
            world.inspections,
            world.lookups,
            world.loads,
            world.closing,
            world.store_work,
        ):
            workers.close()
        if isinstance(self._store, SqliteStore):
            self._store.abandon()
        self._disk.release_locks()
        self._ended.set()


class _LockingDisk(OsDisk):
    """Can release the locks that are held, as the kernel does when a process dies."""

    def __init__(self) -> None:
        self._held: dict[contextlib.ExitStack, None] = {}

    @contextlib.contextmanager
    def lock(self, path: str) -> Iterator[None]:
        with contextlib.ExitStack() as held:
            held.enter_context(super().lock(path))
            self._held[held] = None
            try:
                yield
            finally:
                self._held.pop(held, None)

    def release_locks(self) -> None:
        for held in list(self._held):
            held.close()
