"""`ottla doctor`: does the broker answer, can clients reach the addresses it advertises, and is its store sound?"""

import contextlib
import socket
import time
from typing import NamedTuple

import typer

from ottla.cli.admin import Admin, Cluster
from ottla.cli.client import CONNECT_TIMEOUT, Client, SilentBrokerError, dial
from ottla.cli.command_error import CommandError
from ottla.cli.direct_request import damaged_nodes
from ottla.cli.options import DEFAULT_BOOTSTRAP_SERVER, BootstrapServer, ClientSettings, Json, single
from ottla.cli.output import print_json, styled
from ottla.model import INTERNAL_TOPICS

app = single()


class Advertised(NamedTuple):
    broker: int
    address: str
    reachable: bool


@app.command()
def doctor(
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    client_settings: ClientSettings = None,
    json: Json = False,
) -> None:
    """Check that a broker answers, how quick it is, that clients can reach the addresses it advertises, and that the
    brokers can read every node of their store.

    A client dials the bootstrap address only once: it then follows the addresses the brokers advertise. When these
    cannot be reached from here, everything but the first request fails.

    \b
    Examples:
      ottla doctor
      ottla doctor --bootstrap-server broker.example:9092
    """
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
    topics = [name for name in cluster.topics if name not in INTERNAL_TOPICS]
    if json:
        print_json(
            {
                "bootstrap_server": bootstrap_server,
                "cluster_id": cluster.id,
                "connect_ms": round(connect_ms, 3),
                "round_trip_ms": round(round_trip_ms, 3),
                "brokers": [broker._asdict() for broker in advertised],
                "topics": len(topics),
                "damaged_nodes": damaged,
            }
        )
    else:
        _print_findings(cluster, advertised, damaged, len(topics), round_trip_ms)
    _fail_for_unreachable(advertised)
    _fail_for_damage(damaged)
    if not json:
        print(f"Next: {_next_step(bootstrap_server, topics)}")


def _ask(client: Client) -> tuple[Cluster, float]:
    """The cluster, and the time one request takes once the connections are open: to the bootstrap address, then to
    the one that is advertised."""
    admin = Admin(client)
    try:
        admin.cluster()
    except SilentBrokerError as error:
        raise CommandError(
            f"{client.bootstrap_server} accepts connections but does not answer Kafka's requests; "
            "check the port, and whether the broker wants -X security.protocol=SSL or SASL_SSL."
        ) from error
    admin.cluster()
    started = time.perf_counter()
    cluster = admin.cluster()
    return cluster, (time.perf_counter() - started) * 1000


def _damaged_nodes(cluster: Cluster, advertised: list[Advertised]) -> list[str]:
    """What any of the brokers cannot read: one that has just started may know of more than the others."""
    found: dict[str, None] = {}
    for broker, seen in zip(cluster.brokers, advertised, strict=True):
        if seen.reachable:
            with contextlib.suppress(OSError, ValueError):  # Another kind of broker, or one that wants TLS.
                found.update(dict.fromkeys(damaged_nodes(broker.host, broker.port)))
    return list(found)


def _print_findings(
    cluster: Cluster, advertised: list[Advertised], damaged: list[str], topics: int, round_trip_ms: float
) -> None:
    _tell(True, f"Cluster {cluster.id} answers in {round_trip_ms:.1f} ms; brokers: {len(advertised)}, topics: {topics}")
    for broker in advertised:
        can = "can" if broker.reachable else "cannot"
        _tell(broker.reachable, f"Broker {broker.broker} advertises {broker.address}, which {can} be reached from here")
    for line in damaged:
        _tell(False, f"Damaged node in the store: {line}")


def _fail_for_unreachable(advertised: list[Advertised]) -> None:
    for broker in advertised:
        if not broker.reachable:
            raise CommandError(
                f"Broker {broker.broker} sends clients to {broker.address}, which does not answer from here; "
                "set its advertised.listeners to an address that clients can reach."
            )


def _fail_for_damage(damaged: list[str]) -> None:
    if damaged:
        raise CommandError(
            f"The brokers cannot read {len(damaged)} node(s) of their store: {'; '.join(damaged)}. "
            "They go on with the last good values; write the correct data to these nodes, or delete them."
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
