"""`ottla cluster ...`: `up` runs a cluster on this machine, to try things out, and the other commands operate any
cluster. The brokers of `up` share a file, or a ZooKeeper."""

import contextlib
import queue
import socket
import time
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ottla.cli import cluster_moves, cluster_status, elect, reassign
from ottla.cli.broker_processes import BrokerPlan, BrokerProcess, Ended, Events, Ready, stop_all
from ottla.cli.cluster_view import ClusterView, view
from ottla.cli.command_error import CommandError
from ottla.cli.options import family, key_values
from ottla.cli.zookeeper_server import ZooKeeperServer, missing_parts, require_jars, require_java
from ottla.env.disk import OsDisk

HOST = "127.0.0.1"
DEFAULT_PORT = 9092
SESSION_TIMEOUT_MS = 6000
"""Three times as quick as the default: on one machine nothing but a crash keeps a broker from being heard."""
START_SECONDS = 60.0
REFRESH_SECONDS = 1.0
MOST_REPLICAS = 3
STORE_FILE = "store.sqlite"
ZOOKEEPER_DIR = "zookeeper"

app = family("Run a cluster on this machine, and operate any cluster.")


class StoreKind(StrEnum):
    ZOOKEEPER = "zookeeper"
    SQLITE = "sqlite"


@app.callback()
def cluster() -> None:
    """Run a cluster on this machine, and operate any cluster."""


@app.command()
def up(
    brokers: Annotated[
        int, typer.Option("--brokers", metavar="N", min=1, help="How many brokers; their ids begin with 1.")
    ] = 3,
    port: Annotated[
        int,
        typer.Option("--port", metavar="PORT", min=0, max=65535, help="Port of the first broker; 0 picks free ones."),
    ] = DEFAULT_PORT,
    data_dir: Annotated[
        Path, typer.Option("--data-dir", metavar="DIR", help="Where everything is kept, logs of the brokers included.")
    ] = Path("cluster"),
    store: Annotated[
        StoreKind | None,
        typer.Option(
            "--store",
            help="Where brokers keep what they agree on: one SQLite file, or a ZooKeeper server. Default: the store "
            "that the directory has already, sqlite in a new one.",
        ),
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Setting of every broker; may be repeated.")
    ] = None,
    jars: Annotated[
        Path | None,
        typer.Option("--jars", metavar="DIR", help="ZooKeeper's jars (ZOOKEEPER_JARS); else those inside PySpark."),
    ] = None,
) -> None:
    """Start brokers, show how they are, and stop them all with Ctrl-C or SIGTERM.

    Topics have three replicas, or as many as there are brokers; with three or more, a write with acks=all needs two of
    them. What is stored is there again the next time. A broker that dies stays dead, so that one can see what the
    others do; start the cluster again to have it back.

    The brokers share a SQLite file, which needs nothing else. `--store zookeeper` starts a ZooKeeper server for them;
    it needs Java and `pip install "kazoo<2.12" pyspark`, whose jars include ZooKeeper.

    \b
    Examples:
      ottla cluster up
      ottla cluster up --brokers 5 --port 19092 --data-dir /tmp/five
      ottla cluster up --store zookeeper --data-dir ./with-zookeeper
    """
    settings = default_settings(brokers) | key_values(overrides, "--set")
    ports = [port + number if port else 0 for number in range(brokers)]
    check_ports(ports)
    with _only_user_of(data_dir), contextlib.ExitStack() as stack:
        kind = choose_store(data_dir, store)
        server = _start_zookeeper(data_dir, jars, stack) if kind is StoreKind.ZOOKEEPER else None
        if server is not None:
            settings["zookeeper.connect"] = server.address
        else:
            settings["store.file"] = str(data_dir.resolve() / STORE_FILE)
        shown = stack.enter_context(view())
        _run(plans(data_dir, ports, settings), data_dir, server, shown)


for _command in (
    cluster_status.status,
    cluster_moves.rebalance,
    cluster_moves.drain,
    cluster_moves.replace,
    reassign.reassign,
    elect.elect,
    cluster_status.disks,
):
    app.command()(_command)


def choose_store(data_dir: Path, wanted: StoreKind | None) -> StoreKind:
    """A directory keeps the store that it has: the other one would not know its topics."""
    present = {
        kind
        for kind, name in ((StoreKind.SQLITE, STORE_FILE), (StoreKind.ZOOKEEPER, f"{ZOOKEEPER_DIR}/version-2"))
        if (data_dir / name).exists()
    }
    if wanted is None:
        return StoreKind.ZOOKEEPER if present == {StoreKind.ZOOKEEPER} else StoreKind.SQLITE
    if present and wanted not in present:
        [other] = present
        raise CommandError(
            f"The cluster in {data_dir} has its topics in {other}, not in {wanted}; leave --store out, or choose "
            "another directory with --data-dir."
        )
    return wanted


def default_settings(brokers: int) -> dict[str, str]:
    replicas = str(min(MOST_REPLICAS, brokers))
    in_sync = "2" if brokers >= MOST_REPLICAS else "1"
    return {
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    }


def plans(data_dir: Path, ports: list[int], settings: dict[str, str]) -> list[BrokerPlan]:
    return [
        BrokerPlan(
            broker_id,
            (),
            {
                **settings,
                "node.id": str(broker_id),
                "broker.id": str(broker_id),
                "log.dirs": str(data_dir.resolve() / f"broker-{broker_id}"),
                "listeners": f"PLAINTEXT://{HOST}:{port}",
            },
        )
        for broker_id, port in enumerate(ports, start=1)
    ]


def check_ports(ports: list[int]) -> None:
    """A broker would say it too, but this is before anything is started."""
    for port in filter(None, ports):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except (OSError, OverflowError) as error:
                reason = getattr(error, "strerror", None) or "there is no such port"
                raise CommandError(
                    f"{HOST}:{port} cannot be listened on: {reason}; choose another first port with --port."
                ) from error


@contextlib.contextmanager
def _only_user_of(data_dir: Path) -> Iterator[None]:
    """ZooKeeper does not notice when a second server writes into its directory."""
    data_dir.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(OsDisk().lock(f"{data_dir}/.lock"))
        except BlockingIOError:
            raise CommandError(f"Another cluster runs in {data_dir}; choose another with --data-dir.") from None
        yield


def _start_zookeeper(data_dir: Path, jars: Path | None, stack: contextlib.ExitStack) -> ZooKeeperServer:
    if missing := missing_parts(jars):
        raise CommandError(
            f"A cluster on ZooKeeper needs {'; and '.join(missing)}. Without --store zookeeper, in a new directory, "
            "the brokers share a file and need none of this."
        )
    server = ZooKeeperServer(require_java(), require_jars(jars), data_dir / ZOOKEEPER_DIR, 0)
    stack.callback(server.stop)
    version = server.start()
    print(f"ZooKeeper {version} is ready: {server.address}", flush=True)
    return server


def _run(plans: list[BrokerPlan], data_dir: Path, server: ZooKeeperServer | None, shown: ClusterView) -> None:
    events: Events = Events()
    with contextlib.ExitStack() as stack:
        logs = {
            plan.id: stack.enter_context((data_dir / f"broker-{plan.id}.log").open("a", buffering=1)) for plan in plans
        }
        brokers: list[BrokerProcess] = []
        stack.callback(lambda: stop_all(brokers))
        for plan in plans:
            broker = BrokerProcess(plan, events, lambda broker_id, line: print(line, file=logs[broker_id]))
            brokers.append(broker)
        try:
            _wait_until_ready(brokers, events, data_dir)
            shown.say_ready(brokers)
            _watch(brokers, events, server, shown)
        except KeyboardInterrupt:
            shown.say("Stopping ...")


def _wait_until_ready(brokers: list[BrokerProcess], events: Events, data_dir: Path) -> None:
    waiting = {broker.id for broker in brokers}
    deadline = time.monotonic() + START_SECONDS
    while waiting:
        event = _next(events, max(0.0, deadline - time.monotonic()))
        if isinstance(event, Ready):
            waiting.discard(event.broker.id)
        elif isinstance(event, Ended):
            broker = event.broker
            raise CommandError(f"Broker {broker.id} {broker.why_ended()} ({data_dir}/broker-{broker.id}.log)")
        else:
            raise CommandError(f"Not all brokers were ready within {START_SECONDS:g} seconds; see {data_dir}/*.log.")


def _watch(brokers: list[BrokerProcess], events: Events, server: ZooKeeperServer | None, shown: ClusterView) -> None:
    """Until nothing is left to watch."""
    left = len(brokers)
    while left:
        event = _next(events, REFRESH_SECONDS)
        if isinstance(event, Ended):
            left -= 1
            shown.say(f"Broker {event.broker.id} {event.broker.why_ended()}")
        if server is not None and (code := server.exit_code()) is not None:
            shown.say(f"ZooKeeper ended with exit code {code}; the brokers go on, but nothing can change.")
            server = None
        shown.show(brokers)
    raise CommandError("No broker is left.")


def _next(events: Events, seconds: float) -> object:
    try:
        return events.get(timeout=seconds)
    except queue.Empty:
        return None
