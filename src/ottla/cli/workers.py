"""`ottla serve --workers N`: N brokers on one host, so that N cores serve, and clients see one cluster.

A broker has one event loop. Kafka's clients spread over brokers by themselves, so cores scale like machines: workers
have consecutive ids and ports, share a store, and are restarted when they die.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.cli.broker_processes import BrokerPlan, BrokerProcess, Events, Ready, Stop, stop_all
from ottla.config.listeners import advertised_listeners, broker_listeners
from ottla.server.main import say_ready
from ottla.server.stores import STORE_FILE, is_shared

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig
    from ottla.config.listeners import Listener

WORKERS = "workers"
"""Below the first worker's log directory, the others have theirs."""
_REST_SECONDS = 1.0
"""Before a worker is started again, so that one that cannot live does not eat the machine."""


def serve_with_workers(config: BrokerConfig, arguments: Sequence[str], workers: int) -> int:
    """Run until a signal comes. `arguments` are those of `ottla serve`, of which `config` was made."""
    events: Events = Events()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: events.put(Stop()))
    plans = [
        BrokerPlan(config.integer("node.id") + number, tuple(arguments), worker_settings(config, number))
        for number in range(workers)
    ]
    brokers = {plan.id: BrokerProcess(plan, events, _print_line) for plan in plans}
    try:
        return _look_after(plans, brokers, events)
    finally:
        stop_all(list(brokers.values()))


def worker_settings(config: BrokerConfig, number: int) -> dict[str, str]:
    """What is different for this worker; the first one is what a broker without others would be."""
    node_id = str(config.integer("node.id") + number)
    directories = config.list("log.dirs")
    settings = {
        "node.id": node_id,
        "broker.id": node_id,
        "log.dirs": ",".join(f"{path}/{WORKERS}/{node_id}" if number else path for path in directories),
        "listeners": _listeners(broker_listeners(config), number),
    }
    advertised = advertised_listeners(config)
    if advertised is not None:
        settings["advertised.listeners"] = _listeners(advertised, number)
    if not is_shared(config):
        settings["store.file"] = f"{directories[0]}/{STORE_FILE}"
    return settings


def _listeners(listeners: Sequence[Listener], number: int) -> str:
    """The same on the next port; 0 stays any free one."""
    return ",".join(str(each._replace(port=each.port + number if each.port else 0)) for each in listeners)


def _look_after(plans: Sequence[BrokerPlan], brokers: dict[int, BrokerProcess], events: Events) -> int:
    """Returns the exit code. Before all were ready once, one that ends is one that cannot start, which ends it all."""
    by_id = {plan.id: plan for plan in plans}
    starting = set(by_id)
    while not isinstance(event := events.get(), Stop):
        broker = event.broker
        if isinstance(event, Ready):
            if starting == {broker.id}:
                say_ready([listener for each in brokers.values() for listener in each.listeners])
            starting.discard(broker.id)
        elif starting:
            print(f"Worker {broker.id} {broker.why_ended()}", file=sys.stderr)
            return 1
        else:
            _print_line(broker.id, f"{broker.why_ended()}; it is started again")
            time.sleep(_REST_SECONDS)
            brokers[broker.id] = BrokerProcess(by_id[broker.id], events, _print_line)
    return min(1, stop_all(list(brokers.values())))


def _print_line(broker_id: int, line: str) -> None:
    print(f"[{broker_id}] {line}", flush=True)
