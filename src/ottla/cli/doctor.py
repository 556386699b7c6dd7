"""`ottla doctor`: checks brokers, the addresses that they advertise, partitions and the store."""

import contextlib
import socket
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import typer

from ottla.cli.admin import Admin, Cluster
from ottla.cli.client import CONNECT_TIMEOUT, Client, SilentBrokerError, dial, parse_address
from ottla.cli.command_error import CommandError
from ottla.cli.direct_request import answers, damaged_nodes
from ottla.cli.options import DEFAULT_BOOTSTRAP_SERVER, BootstrapServer, ClientSettings, Json, single
from ottla.cli.output import count, first_few, print_json, styled
from ottla.model import INTERNAL_TOPICS, TopicPartition

app = single()


class Advertised(NamedTuple):
    broker: int
    address: str
    reachable: bool


@dataclass(frozen=True, slots=True)
class Health:
    """What is wrong with the partitions of a cluster."""

    dead_brokers: dict[int, int]
    """Brokers that have replicas but are not part of the cluster now; the number of their replicas."""
    without_leader: list[TopicPartition]
    under_replicated: list[TopicPartition]

    @property
    def problems(self) -> list[str]:
        found = [
            f"Broker {broker} is not running; it has replicas of {count(partitions, 'partition')}"
            for broker, partitions in sorted(self.dead_brokers.items())
        ]
        if self.without_leader:
            found.append(f"{_those(self.without_leader, 'has', 'have')} no leader: {first_few(self.without_leader)}")
        if self.under_replicated:
            found.append(
                f"{_those(self.under_replicated, 'is', 'are')} under-replicated: {first_few(self.under_replicated)}"
            )
        return found


def examine(cluster: Cluster) -> Health:
    running = {broker.id for broker in cluster.brokers}
    missing: Counter[int] = Counter()
    for replicas in cluster.partitions.values():
        missing.update(broker for broker in replicas.assigned if broker not in running)
    return Health(
        dict(missing),
        [name for name, replicas in cluster.partitions.items() if replicas.leader is None],
        [name for name, replicas in cluster.partitions.items() if len(replicas.in_sync) < len(replicas.assigned)],
    )


@app.command()
def doctor(
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    client_settings: ClientSettings = None,
    json: Json = False,
    one_broker: bool = typer.Option(
        False,
        "--one-broker",
        help="Check only that the broker at the address answers, for health checks.",
    ),
) -> None:
    """Check a cluster, and exit with 1 if something is wrong.

    A broker must answer, all brokers must run, clients must be able to reach the addresses that the brokers advertise,
    every partition must have a leader and all its replicas in sync, and the brokers must be able to read their store.

    A client connects to the bootstrap address only once, and then to the addresses that the brokers advertise. If it
    cannot reach them, every request but the first fails.

    \b
    Examples:
      ottla doctor
      ottla doctor --json || echo "something is wrong"
      ottla doctor --bootstrap-server broker.example:9092
      ottla doctor --one-broker
    """
    if one_broker:
        _check_one_broker(bootstrap_server, client_settings, json)
        return
    started = time.perf_counter()
    dial(bootstrap_server)
    connect_ms = (time.perf_counter() - started) * 1000
    if not json:
        _tell(True, f"{bootstrap_server} accepts connections ({connect_ms:.1f} ms)")
    cluster, round_trip_ms = _ask(Client(bootstrap_server, client_settings))
    advertised = [
        Advertised(broker.id, f"{broker.host}:{broker.port}", _reachable(broker.host, broker.port))
        for broker in cluster.brokers
    ]
    damaged = _damaged_nodes(cluster, advertised)
    health = examine(cluster)
    topics = [name for name in cluster.topics if name not in INTERNAL_TOPICS]
    if json:
        print_json(
            {
                "bootstrap_server": bootstrap_server,
                "cluster_id": cluster.id,
                "connect_ms": round(connect_ms, 3),
                "round_trip_ms": round(round_trip_ms, 3),
                "brokers": [broker._asdict() for broker in advertised],
                "topics": len(cluster.topics),
                "dead_brokers": sorted(health.dead_brokers),
                "without_leader": [partition._asdict() for partition in health.without_leader],
                "under_replicated": [partition._asdict() for partition in health.under_replicated],
                "damaged_nodes": damaged,
            }
        )
    else:
        _print_findings(cluster, advertised, health, damaged, round_trip_ms)
    _fail_for_unreachable(advertised)
    _fail_for_health(health)
    _fail_for_damage(damaged)
    if not json:
        print(f"Next: {_next_step(bootstrap_server, topics)}")


def _check_one_broker(bootstrap_server: str, client_settings: list[str] | None, json: bool) -> None:
    """One request to one address, so that the check costs little and does not depend on other brokers."""
    host, port = parse_address(bootstrap_server)
    dial(bootstrap_server)
    client = Client(bootstrap_server, client_settings)
    if not client.plaintext:
        Admin(client).cluster()
    elif not answers(host, port):
        raise CommandError(f"{bootstrap_server} accepts connections but does not answer Kafka's requests.")
    if json:
        print_json({"bootstrap_server": bootstrap_server})
    else:
        _tell(True, f"{bootstrap_server} answers")


def _ask(client: Client) -> tuple[Cluster, float]:
    """The cluster, and the time of one request in ms. The first two requests open the connections: to the bootstrap
    address, and to the advertised one."""
    admin = Admin(client)
    try:
        admin.cluster()
    except SilentBrokerError as error:
        raise CommandError(
            f"{client.bootstrap_server} accepts connections but does not answer Kafka's requests; "
            "check the port, and whether the broker requires -X security.protocol=SSL or SASL_SSL."
        ) from error
    admin.cluster()
    started = time.perf_counter()
    cluster = admin.cluster()
    return cluster, (time.perf_counter() - started) * 1000


def _damaged_nodes(cluster: Cluster, advertised: list[Advertised]) -> list[str]:
    """Nodes that at least one broker cannot read. A broker that has just started may report more than the others."""
    found: dict[str, None] = {}
    for broker, seen in zip(cluster.brokers, advertised, strict=True):
        if seen.reachable:
            with contextlib.suppress(OSError, ValueError):  # Another kind of broker, or one that requires TLS.
                found.update(dict.fromkeys(damaged_nodes(broker.host, broker.port)))
    return list(found)


def _print_findings(
    cluster: Cluster,
    advertised: list[Advertised],
    health: Health,
    damaged: list[str],
    round_trip_ms: float,
) -> None:
    size = f"brokers: {len(advertised)}, topics: {len(cluster.topics)}"
    _tell(True, f"Cluster {cluster.id} answers in {round_trip_ms:.1f} ms; {size}")
    for broker in advertised:
        can = "can" if broker.reachable else "cannot"
        _tell(broker.reachable, f"Broker {broker.broker} advertises {broker.address}, which {can} be reached from here")
    for problem in health.problems:
        _tell(False, problem)
    if not health.problems:
        _tell(True, f"Every partition has a leader and all its replicas in sync; partitions: {len(cluster.partitions)}")
    for line in damaged:
        _tell(False, f"Damaged node in the store: {line}")


def _fail_for_unreachable(advertised: list[Advertised]) -> None:
    for broker in advertised:
        if not broker.reachable:
            raise CommandError(
                f"Broker {broker.broker} sends clients to {broker.address}, which does not answer from here; "
                "set its advertised.listeners to an address that clients can reach."
            )


def _fail_for_health(health: Health) -> None:
    if health.dead_brokers:
        dead = ", ".join(map(str, sorted(health.dead_brokers)))
        raise CommandError(
            f"Not running: broker {dead}. Start it again, or move its replicas to others with `ottla cluster drain`."
        )
    if health.without_leader:
        raise CommandError("Partitions without a leader cannot be read or written until a replica of them is back.")
    if health.under_replicated:
        raise CommandError(
            "Under-replicated partitions are served, but a failure may lose them. Followers that are running catch up "
            "by themselves; run `ottla doctor` again."
        )


def _those(partitions: Sequence[TopicPartition], one: str, many: str) -> str:
    """`1 partition is`, `2 partitions are`."""
    return f"{count(len(partitions), 'partition')} {one if len(partitions) == 1 else many}"


def _fail_for_damage(damaged: list[str]) -> None:
    if damaged:
        raise CommandError(
            f"The brokers cannot read {len(damaged)} node(s) of their store: {'; '.join(damaged)}. "
            "They use the last good values; write the correct data to these nodes, or delete them."
        )


def _next_step(bootstrap_server: str, topics: list[str]) -> str:
    where = "" if bootstrap_server == DEFAULT_BOOTSTRAP_SERVER else f" --bootstrap-server {bootstrap_server}"
    if topics:
        return f"ottla consume {topics[0]} --from-beginning{where}"
    return f"ottla topics create clicks --partitions 3{where}"


def _tell(good: bool, text: str) -> None:
    mark = styled("ok  ", typer.colors.GREEN) if good else styled("FAIL", typer.colors.RED)
    print(mark, text, flush=True)


def _reachable(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), CONNECT_TIMEOUT).close()
    except OSError:
        return False
    return True
