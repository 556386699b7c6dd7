"""A proxy in front of a broker whose connections a test can break, from outside of its event loop."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.store.tcp_proxy import TcpProxy


class BrokerProxy:
    def __init__(self, proxy: TcpProxy, loop: asyncio.AbstractEventLoop) -> None:
        self._proxy = proxy
        self._loop = loop
        self.address = proxy.address

    @property
    def connections(self) -> int:
        return self._proxy.connections

    def cut(self) -> None:
        """Returns when every connection is reset."""

        async def work() -> None:
            self._proxy.cut()

        asyncio.run_coroutine_threadsafe(work(), self._loop).result(30)


@contextmanager
def running_proxy(target: str) -> Iterator[BrokerProxy]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    proxy = TcpProxy(target)
    try:
        asyncio.run_coroutine_threadsafe(proxy.__aenter__(), loop).result(30)
        yield BrokerProxy(proxy, loop)
        asyncio.run_coroutine_threadsafe(proxy.__aexit__(), loop).result(30)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()
