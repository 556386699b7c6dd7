"""Runs all hostile clients in one thread, without blocking."""

import contextlib
import selectors
import socket
import struct
import time
from collections.abc import Callable, Sequence

from tests.hostile.clients import HostileClient

_RESET = struct.pack("ii", 1, 0)
_RESET_CHANCE_PER_BURST = 200
"""One burst in so many is followed by a reset of its connection."""


def run(clients: Sequence[HostileClient], tick: Callable[[], bool], tick_seconds: float = 2.0) -> None:
    """Until all clients are done, or `tick` returns False."""
    with selectors.DefaultSelector() as selector:
        driver = _Driver(selector)
        next_tick = time.monotonic() + tick_seconds
        while any(not client.done for client in clients):
            for client in clients:
                driver.advance(client)
            driver.wait()
            if time.monotonic() >= next_tick:
                next_tick = time.monotonic() + tick_seconds
                if not tick():
                    break
        for client in clients:
            driver.close(client)


class _Driver:
    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._bursts = 0

    def advance(self, client: HostileClient) -> None:
        now = time.monotonic()
        if client.done:
            self.close(client)
        elif client.socket is None:
            self._selector.register(client.connect(now), selectors.EVENT_READ, client)
            self._attack(client, now)
        elif client.ready and not client.outbox:
            self._attack(client, now)
        elif client.gives_up(now - client.last_heard):
            self.close(client)

    def _attack(self, client: HostileClient, now: float) -> None:
        self._bursts += 1
        if not client.attack(now):
            self.close(client)
        elif self._bursts % _RESET_CHANCE_PER_BURST == 0:
            self.close(client, reset=True)
        elif client.outbox:
            self._watch(client)

    def wait(self) -> None:
        for key, events in self._selector.select(0.01):
            client: HostileClient = key.data
            if events & selectors.EVENT_READ and not client.receive(time.monotonic()):
                self.close(client)
            elif events & selectors.EVENT_WRITE:
                if client.flush():
                    self._watch(client)
                else:
                    self.close(client)

    def _watch(self, client: HostileClient) -> None:
        assert client.socket is not None
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if client.outbox else 0)
        self._selector.modify(client.socket, events, client)

    def close(self, client: HostileClient, *, reset: bool = False) -> None:
        connection = client.socket
        if connection is None:
            return
        if reset:
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._selector.unregister(connection)
        connection.close()
        client.disconnected()
