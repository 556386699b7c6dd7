"""A process that holds a session in a store file: `python -m tests.store.broker_process <file> <what>`.

`hold` makes one ephemeral node and reports the loss of its session; `count` writes the same number to three nodes in
one commit, again and again, and prints each number once it is committed.
"""

import asyncio
import sys

from ottla.env.background import Threads
from ottla.env.clock import SystemClock
from ottla.env.disk import OsDisk
from ottla.store.interface import Create, Op, Put
from ottla.store.sqlite import SqliteStore


async def hold(store: SqliteStore) -> None:
    await store.commit([Create("/held", b"by a process", ephemeral=True)])
    lost = asyncio.Event()
    store.on_session_lost(lost.set)
    print("held", flush=True)
    await lost.wait()
    print("lost", flush=True)


async def count(store: SqliteStore) -> None:
    number = 0
    while True:
        number += 1
        data = b"%d" % number
        ops: list[Op] = [Put("/one", data), Put("/two/deep", data), Put("/three", data)]
        await store.commit(ops)
        print(number, flush=True)


async def main(path: str, what: str) -> None:
    # A timeout this long is never reached on this process's own clock.
    store = SqliteStore(path, SystemClock(), Threads(1), OsDisk(), session_timeout=60.0, poll_interval=0.01)
    await store.start()
    await {"hold": hold, "count": count}[what](store)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
