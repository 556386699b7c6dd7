"""The display of a running cluster: a live table on a terminal, otherwise one line per event."""

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from confluent_kafka import KafkaException

from ottla.cli.broker_processes import BrokerProcess
from ottla.cli.client import Client
from ottla.cli.command_error import CommandError
from ottla.cli.output import on_terminal, rich_table

METADATA_SECONDS = 1.0

COLUMNS = ("BROKER", "ADDRESS", "LEADERS", "UNDER-REPLICATED", "CONTROLLER", "MEMORY")


class Roles(NamedTuple):
    """Controller and leaders, from the metadata of one broker."""

    controller: int
    leads: Counter[int]
    under_replicated: Counter[int]
    """By leader: the number of its under-replicated partitions."""


class Row(NamedTuple):
    broker: str
    address: str
    leads: str
    under_replicated: str
    controller: str
    memory: str


def rows(brokers: Sequence[BrokerProcess], roles: Roles | None) -> list[Row]:
    return [_row(broker, roles) for broker in brokers]


def _row(broker: BrokerProcess, roles: Roles | None) -> Row:
    if not broker.is_running:
        return Row(str(broker.id), broker.why_ended(), "", "", "", "")
    memory = broker.memory()
    return Row(
        str(broker.id),
        broker.address or "starting",
        "" if roles is None else str(roles.leads[broker.id]),
        "" if roles is None else str(roles.under_replicated[broker.id]),
        "yes" if roles is not None and roles.controller == broker.id else "",
        "" if memory is None else f"{memory / 1e6:.0f} MB",
    )


def roles_of(metadata: Any) -> Roles:
    leads: Counter[int] = Counter()
    behind: Counter[int] = Counter()
    for topic in metadata.topics.values():
        for partition in topic.partitions.values():
            leads[partition.leader] += 1
            behind[partition.leader] += len(partition.isrs) < len(partition.replicas)
    return Roles(metadata.controller_id, leads, behind)


class ClusterView:
    """Prints lines, for an output that is not a terminal."""

    def say_ready(self, brokers: Sequence[BrokerProcess]) -> None:
        for broker in brokers:
            self.say(f"Broker {broker.id} is ready: {broker.address}")
        self.say(f"Ottla is ready: {bootstrap_servers(brokers)}")

    def say(self, text: str) -> None:
        print(text, flush=True)

    def show(self, brokers: Sequence[BrokerProcess]) -> None:
        """Nothing to print: `say` reports every change."""


class LiveClusterView(ClusterView):
    def __init__(self) -> None:
        from rich.live import Live

        self._live = Live(auto_refresh=False, redirect_stderr=False)
        self._admin: Any = None

    def say_ready(self, brokers: Sequence[BrokerProcess]) -> None:
        super().say_ready(brokers)
        self.say("Ctrl-C stops them all.")
        with contextlib.suppress(CommandError):
            self._admin = Client(bootstrap_servers(brokers), None).admin()
        self._live.start()
        self.show(brokers)

    def say(self, text: str) -> None:
        self._live.console.print(text, markup=False, highlight=False)

    def show(self, brokers: Sequence[BrokerProcess]) -> None:
        self._live.update(_table(rows(brokers, self._roles())), refresh=True)

    def close(self) -> None:
        self._live.stop()

    def _roles(self) -> Roles | None:
        try:
            return None if self._admin is None else roles_of(self._admin.list_topics(timeout=METADATA_SECONDS))
        except KafkaException:
            return None


@contextlib.contextmanager
def view() -> Iterator[ClusterView]:
    if not on_terminal():
        yield ClusterView()
        return
    live = LiveClusterView()
    try:
        yield live
    finally:
        live.close()


def bootstrap_servers(brokers: Sequence[BrokerProcess]) -> str:
    return ",".join(broker.address for broker in brokers if broker.address is not None)


def _table(table_rows: Sequence[Row]) -> Any:
    stopped = [number for number, row in enumerate(table_rows) if not row.memory]
    return rich_table(COLUMNS, table_rows, red=stopped)
