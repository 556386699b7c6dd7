"""`ottla cluster rebalance`, `drain` and `replace`: commands that plan moves themselves."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from ottla.cli import moving
from ottla.cli.cluster_admin import ClusterAdmin, ClusterState
from ottla.cli.command_error import CommandError
from ottla.cli.moving import Cancel, MoveOptions, Preview, Throttle, Wait
from ottla.cli.options import DEFAULT_BOOTSTRAP_SERVER, BootstrapServer, ClientSettings, Json
from ottla.cli.output import count, print_json, say
from ottla.cluster import rebalance as planner
from ottla.cluster.layout import PlacedPartition
from ottla.cluster.rebalance import Plan

MOST_ROUNDS = 10
"""New topics may get replicas on a broker while it is drained. More rounds than this are no accident."""


def rebalance(
    preview: Preview = False,
    throttle: Throttle = None,
    wait: Wait = True,
    cancel: Cancel = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    client_settings: ClientSettings = None,
    json: Json = False,
) -> None:
    """Spread replicas and leaders evenly over the brokers, for example after a broker was added.

    Replicas of a partition stay in as many racks as possible, brokers get the same number of replicas and leaders, and
    about the same number of bytes. As few bytes as possible are copied. Clients can read and write all the time.

    Ctrl-C leaves the moves running; `ottla cluster reassign --wait` shows them again.

    \b
    Examples:
      ottla cluster rebalance --preview
      ottla cluster rebalance --throttle 20MB
      ottla cluster rebalance --cancel
    """
    admin = ClusterAdmin(bootstrap_server, client_settings)
    if cancel:
        _cancel(admin, preview, throttle, json, removing=None)
        return
    state = admin.state()
    for broker, replicas in state.dead().items():
        raise CommandError(
            f"Broker {broker} is not running and has {count(replicas, 'replica')}; start it, or move its replicas to "
            f"other brokers with `ottla cluster drain {broker}` first."
        )
    plan = planner.balance(state.plan_brokers(), state.placed())
    document = moving.carry_out(admin, state, plan, MoveOptions(preview, throttle, wait, json))
    if json:
        print_json(document)
    elif document["state"] == moving.DONE:
        say("The cluster is balanced.")


def drain(
    broker: Annotated[int, typer.Argument(metavar="BROKER", help="Id of the broker, which may be dead.")],
    preview: Preview = False,
    throttle: Throttle = None,
    wait: Wait = True,
    cancel: Cancel = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    client_settings: ClientSettings = None,
    json: Json = False,
) -> None:
    """Move all replicas and leaders off a broker. Afterwards the broker can be stopped for good.

    The number of replicas of each partition stays the same, so there must be enough other brokers. A dead broker can
    be drained too: its replicas are copied from the others. Stop a drained broker: new topics may still use it.

    \b
    Examples:
      ottla cluster drain 3 --preview
      ottla cluster drain 3 --throttle 20MB
    """
    admin = ClusterAdmin(bootstrap_server, client_settings)
    if cancel:
        _cancel(admin, preview, throttle, json, removing=broker)
        return

    def plan_of(state: ClusterState) -> Plan:
        return planner.drain(state.plan_brokers(without=[broker]), _placed_on(state, broker))

    _empty(admin, broker, plan_of, MoveOptions(preview, throttle, wait, json))


def replace(
    old: Annotated[int, typer.Argument(metavar="OLD", help="Id of the broker to replace, which may be dead.")],
    new: Annotated[int, typer.Argument(metavar="NEW", help="Id of the broker that takes its place.")],
    preview: Preview = False,
    throttle: Throttle = None,
    wait: Wait = True,
    cancel: Cancel = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    client_settings: ClientSettings = None,
    json: Json = False,
) -> None:
    """Give all replicas of one broker to another broker. Afterwards the old broker can be stopped for good.

    If the new broker already has a replica of a partition, a third broker gets the replica of the old one.

    A broker on a new machine that keeps its id needs no command: start it with the id and an empty directory.

    \b
    Examples:
      ottla cluster replace 3 4 --preview
      ottla cluster replace 3 4 --throttle 20MB
    """
    if old == new:
        raise typer.BadParameter("OLD and NEW are the same broker")
    admin = ClusterAdmin(bootstrap_server, client_settings)
    if cancel:
        _cancel(admin, preview, throttle, json, removing=old)
        return

    def plan_of(state: ClusterState) -> Plan:
        if new not in state.alive:
            raise CommandError(f"Broker {new} is not running; start it first.")
        return planner.replace(state.plan_brokers(), _placed_on(state, old), old, new)

    _empty(admin, old, plan_of, MoveOptions(preview, throttle, wait, json))


def _cancel(admin: ClusterAdmin, preview: bool, throttle: int | None, json: bool, removing: int | None) -> None:
    """Cancel all moves, or those that take a replica from one broker."""
    if preview or throttle is not None:
        raise typer.BadParameter("--cancel goes with neither --preview nor --throttle")
    moving.cancel_moves(admin, json, lambda _, move: removing is None or removing in move.removing)


def _placed_on(state: ClusterState, broker: int) -> list[PlacedPartition]:
    """All partitions with a leader, after a check that every partition of the broker has one."""
    partitions = state.cluster.partitions
    stuck = [key for key, replicas in partitions.items() if replicas.leader is None and broker in replicas.assigned]
    if stuck:
        raise CommandError(
            f"{count(len(stuck), 'partition')} of broker {broker} without a leader cannot be copied ({stuck[0]}); "
            "start a broker with an in-sync replica, or accept the loss with `ottla cluster elect --unclean`."
        )
    return state.placed()


def _empty(admin: ClusterAdmin, broker: int, plan_of: Callable[[ClusterState], Plan], options: MoveOptions) -> None:
    """Carry out plans until the broker has no replica: a new topic may have got one in the meantime."""
    documents: list[dict[str, Any]] = []
    for attempt in range(MOST_ROUNDS):
        state = admin.state()
        known = sorted(state.alive | state.dead().keys())
        if not attempt and broker not in known:
            raise CommandError(f"There is no broker {broker}; the cluster has {', '.join(map(str, known))}.")
        plan = plan_of(state)
        if plan.unplaceable:
            raise CommandError(
                f"{count(len(plan.unplaceable), 'partition')} cannot leave broker {broker}, because there are too few "
                f"other brokers for all their replicas ({plan.unplaceable[0]}); add a broker first."
            )
        if attempt and plan.is_empty:
            break
        documents.append(moving.carry_out(admin, state, plan, options))
        if documents[-1]["state"] != moving.DONE:
            break
    if options.json:
        later = [move for document in documents[1:] for move in document["moves"]]
        print_json({**documents[0], "state": documents[-1]["state"], "later_moves": later})
    if documents[-1]["state"] != moving.DONE:
        return
    if any(broker in replicas.assigned for replicas in admin.cluster().partitions.values()):
        raise CommandError(f"Broker {broker} got new replicas again and again; stop creating topics, and try again.")
    if not options.json:
        rest = "It can be stopped." if broker in state.alive else "It is not running, and is not needed any more."
        say(f"Broker {broker} has no replicas and leads nothing. {rest}")
