"""Carries out a plan: limits the rate, starts the moves, shows how far they are, elects leaders, removes the limit."""

import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from ottla.cli.admin import Cluster
from ottla.cli.cluster_admin import ClusterAdmin, ClusterState
from ottla.cli.command_error import CommandError
from ottla.cli.output import count, first_few, human_bytes, note, print_json, say
from ottla.cli.plan_view import plan_document, print_plan
from ottla.cli.reassignment_requests import Ongoing
from ottla.cluster.rebalance import Move, Plan
from ottla.model import TopicPartition

POLL_SECONDS = 0.5
LINE_SECONDS = 10.0
"""Time between two lines of progress if standard error is not a terminal."""
SETTLE_SECONDS = 15.0
"""How long it may take until the result of a move is known everywhere, and its preferred leader is in sync."""
UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
INTERRUPTED = 130


def parse_rate(text: str) -> int:
    """`20000000`, `20MB`, `500k`: bytes per second."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmg]?)b?(?:/s)?", text.strip().lower())
    rate = round(float(match[1]) * UNITS[match[2]]) if match else 0
    if rate < 1:
        raise typer.BadParameter(f"{text!r} is no number of bytes per second, such as 20000000 or 20MB")
    return rate


Throttle = Annotated[
    int | None,
    typer.Option(
        "--throttle",
        metavar="BYTES/S",
        parser=parse_rate,
        help="Copy at most this many bytes per second on each broker, such as 20MB. Removed when the moves are done.",
    ),
]
Wait = Annotated[
    bool, typer.Option("--wait/--no-wait", help="Show progress until the moves are done, or return at once.")
]
Preview = Annotated[bool, typer.Option("--preview", "--dry-run", help="Show the plan and change nothing.")]
Cancel = Annotated[
    bool, typer.Option("--cancel", help="Cancel the moves that are under way, and remove the throttle if none is left.")
]


@dataclass(frozen=True, slots=True)
class MoveOptions:
    preview: bool
    throttle: int | None
    wait: bool
    json: bool


PREVIEW, STARTED, DONE = "preview", "started", "done"


def carry_out(admin: ClusterAdmin, state: ClusterState, plan: Plan, options: MoveOptions) -> dict[str, Any]:
    """Show a plan and, unless it is only a preview, carry it out. Returns the document for --json, with its `state`."""
    refuse_if_moving(state)
    if not options.json:
        print_plan(state, plan)
        if options.throttle is not None and plan.moves:
            seconds = copying_seconds(plan.moves, options.throttle)
            print(f"At {human_bytes(options.throttle)}/s for each broker, copying takes about {duration(seconds)}.")
    if options.preview:
        return {"state": PREVIEW, **plan_document(state, plan)}
    if plan.changes:
        _start(admin, plan, options.throttle)
    done = options.wait or not plan.moves
    if done:
        if plan.moves:
            wait_for(admin, plan.moves, options, throttled=options.throttle is not None)
        _check_result(admin, plan)
        elect_preferred(admin, plan.elections)
    if not done and not options.json:
        _say_started(options)
    return {"state": DONE if done else STARTED, **plan_document(state, plan)}


def copying_seconds(moves: Sequence[Move], bytes_per_second: int) -> float:
    """The time that the broker with the most bytes to fetch needs."""
    fetched: Counter[int] = Counter()
    for move in moves:
        fetched.update(dict.fromkeys(move.adding, move.size))
    return max(fetched.values(), default=0) / bytes_per_second


def refuse_if_moving(state: ClusterState) -> None:
    """A plan cannot be made for partitions that have old and new replicas at the same time."""
    if state.ongoing:
        raise CommandError(
            f"{count(len(state.ongoing), 'partition')} of the cluster {'is' if len(state.ongoing) == 1 else 'are'} "
            "being moved already; wait with `ottla cluster reassign --wait`, or cancel with `ottla cluster reassign "
            "--cancel`."
        )


def _start(admin: ClusterAdmin, plan: Plan, throttle: int | None) -> None:
    if throttle is not None and plan.moves:
        admin.set_throttle(plan.moves, throttle)
    refused = admin.start({move.partition: move.after for move in plan.changes})
    if not refused:
        return
    started = {move.partition for move in plan.moves} - refused.keys()
    if not started and throttle is not None:
        admin.clear_throttle()
    going = f" The other moves have started ({len(started)}); see `ottla cluster reassign --list`." if started else ""
    raise CommandError(refusals(refused) + going)


def refusals(refused: dict[TopicPartition, str]) -> str:
    """One sentence for the partitions that the controller refused."""
    reasons = [f"{key}: {reason.rstrip('.')}" for key, reason in refused.items()]
    return f"The controller refused {count(len(refused), 'partition')}: {first_few(reasons, '; ')}."


def _say_started(options: MoveOptions) -> None:
    limit = "" if options.throttle is None else " The throttle stays until then."
    say(f"The moves have started. `ottla cluster reassign --wait` shows progress and elects leaders.{limit}")


def wait_for(admin: ClusterAdmin, moves: Sequence[Move], options: MoveOptions, *, throttled: bool) -> None:
    """Show progress until these moves are done, then remove the throttle. Ctrl-C leaves the moves running."""
    view = MoveProgress(len(moves), sum(move.bytes_to_copy for move in moves), shown=not options.json)
    try:
        while left := [move for move in moves if move.partition in (ongoing := admin.ongoing())]:
            done = sum(move.bytes_to_copy for move in moves if move.partition not in ongoing)
            view.show(len(moves) - len(left), done + admin.copied(left))
            time.sleep(POLL_SECONDS)
    except KeyboardInterrupt:
        view.clear()
        limit = ", and the throttle stays" if throttled else ""
        note(
            f"The moves continue{limit}. Watch them with `ottla cluster reassign --wait`, cancel them with "
            "`ottla cluster reassign --cancel`."
        )
        raise typer.Exit(INTERRUPTED) from None
    finally:
        view.clear()
    if throttled:
        admin.clear_throttle()


def _check_result(admin: ClusterAdmin, plan: Plan) -> None:
    """A move that is not listed any more was completed, or cancelled by somebody else."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while missed := _missed(plan, admin.cluster()):
        if time.monotonic() > deadline:
            break
        time.sleep(POLL_SECONDS)
    if missed:
        raise CommandError(
            f"{count(len(missed), 'move')} ended without the new replicas, because somebody cancelled or changed them: "
            f"{first_few(missed)}."
        )


def _missed(plan: Plan, now: Cluster) -> list[TopicPartition]:
    return [
        move.partition
        for move in plan.changes
        if move.partition in now.partitions and now.partitions[move.partition].assigned != list(move.after)
    ]


def elect_preferred(admin: ClusterAdmin, partitions: Sequence[TopicPartition]) -> None:
    """Let the first replicas lead. The controller may have elected some of them already."""
    left = list(partitions)
    deadline = time.monotonic() + SETTLE_SECONDS
    while left:
        refused = {
            key: error
            for key, error in admin.admin.elect_leaders(left, unclean=False).items()
            if error not in (None, "ELECTION_NOT_NEEDED", "UNKNOWN_TOPIC_OR_PART")
        }
        if refused and time.monotonic() > deadline:
            raise CommandError(
                f"The moves are done, but {count(len(refused), 'partition')} got no preferred leader "
                f"({first_few(refused)}); run `ottla cluster elect --all` when their replicas are in sync."
            )
        left = list(refused)
        time.sleep(POLL_SECONDS if left else 0)


def cancel_moves(admin: ClusterAdmin, json: bool, chosen: Callable[[TopicPartition, Ongoing], bool]) -> None:
    """Cancel the moves that are `chosen`. If no others are left, remove the throttle."""
    ongoing = {key: it for key, it in admin.ongoing().items() if chosen(key, it)}
    refused = admin.start(dict.fromkeys(ongoing)) if ongoing else {}
    cancelled = {key: it.origin for key, it in ongoing.items() if key not in refused}
    was_throttled = False if refused or admin.ongoing() else admin.clear_throttle()
    if json:
        document: dict[str, Any] = {
            "cancelled": [{**key._asdict(), "replicas": replicas} for key, replicas in cancelled.items()],
            "throttle_removed": was_throttled,
        }
        print_json(document)
    else:
        limit = " The throttle is removed." if was_throttled else ""
        say((f"Cancelled {count(len(cancelled), 'move')}." if ongoing else "There is no move to cancel.") + limit)
    if refused:
        raise CommandError(refusals(refused))


class MoveProgress:
    """One line that is rewritten on a terminal; elsewhere a line from time to time."""

    def __init__(self, moves: int, total: int, *, shown: bool) -> None:
        self._moves = moves
        self._total = total
        self._shown = shown
        self._live = sys.stderr.isatty()
        self._visible = False
        self._started = time.monotonic()
        self._first: int | None = None
        self._next_line = self._started + LINE_SECONDS

    def show(self, done: int, copied: int) -> None:
        if not self._shown:
            return
        now = time.monotonic()
        if self._first is None:
            self._first = copied
        text = self.text(done, copied, (copied - self._first) / max(now - self._started, 1e-6))
        if self._live:
            self._visible = True
            sys.stderr.write(f"\r\x1b[K{text}")
        elif now >= self._next_line:
            self._next_line = now + LINE_SECONDS
            sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def text(self, done: int, copied: int, rate: float) -> str:
        copied = min(copied, self._total)
        text = f"{done:,} of {count(self._moves, 'partition')} moved, "
        text += f"{human_bytes(copied)} of {human_bytes(self._total)} copied"
        if rate >= 1:
            text += f", {human_bytes(rate)}/s"
            if self._total > copied:
                text += f", about {duration((self._total - copied) / rate)} left"
        return text

    def clear(self) -> None:
        if self._visible:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._visible = False


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
