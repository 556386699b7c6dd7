"""`ottla consume`: prints the records of a topic."""

import enum
import sys
from typing import Annotated

import typer

from ottla.cli import position
from ottla.cli.client import Client
from ottla.cli.consumer_session import ConsumerSession, Limits, Start
from ottla.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    BootstrapServer,
    Json,
    TopicCommand,
    client_settings_option,
    properties,
    property_option,
    single,
)
from ottla.cli.output import note, on_terminal
from ottla.cli.position import Kind, Position, parse_position
from ottla.cli.progress import Progress
from ottla.cli.record_format import FIELDS_HELP
from ottla.cli.record_printer import PRINTER_PROPERTIES, RecordPrinter

app = single()


class Isolation(enum.StrEnum):
    COMMITTED = "read_committed"
    UNCOMMITTED = "read_uncommitted"


@app.command(cls=TopicCommand)
def consume(
    topic: Annotated[
        str, typer.Argument(metavar="TOPIC", help="Topic to read; --topic TOPIC is accepted too.", show_default=False)
    ],
    from_beginning: Annotated[
        bool,
        typer.Option("--from-beginning", help="Start at the oldest record, unless the group has committed offsets."),
    ] = False,
    start: Annotated[
        str | None,
        typer.Option("--from", "--offset", "-o", metavar="WHERE", help=f"Start here: {position.FORMS}. Times are UTC."),
    ] = None,
    stop: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="WHERE",
            help="Stop before this position (forms as for --from), or at the current end if that is earlier; "
            "starts at the oldest record without --from.",
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group", "-g", metavar="NAME", help="Read as a member of this consumer group and commit offsets."
        ),
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", metavar="N", min=0, help="Read only this partition.")
    ] = None,
    max_messages: Annotated[
        int | None, typer.Option("--max-messages", "-n", "-c", metavar="N", min=1, help="Stop after N records.")
    ] = None,
    timeout_ms: Annotated[
        int | None,
        typer.Option("--timeout-ms", metavar="MS", min=0, help="Stop after MS milliseconds without a record."),
    ] = None,
    exit_at_end: Annotated[bool, typer.Option("--exit-at-end", "-e", help="Stop at the end of the topic.")] = False,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for new records; this is the default.")] = False,
    template: Annotated[
        str | None,
        typer.Option("--format", "-f", metavar="TEMPLATE", help=f"Print each record as this template: {FIELDS_HELP}."),
    ] = None,
    print_key: Annotated[bool, typer.Option("--print-key", help="Print the key before the value.")] = False,
    print_timestamp: Annotated[bool, typer.Option("--print-timestamp", help="Print the timestamp.")] = False,
    print_partition: Annotated[bool, typer.Option("--print-partition", help="Print the partition.")] = False,
    print_offset: Annotated[bool, typer.Option("--print-offset", help="Print the offset.")] = False,
    print_headers: Annotated[bool, typer.Option("--print-headers", help="Print the headers.")] = False,
    isolation_level: Annotated[
        Isolation, typer.Option("--isolation-level", help="Whether to hide records of open and aborted transactions.")
    ] = Isolation.COMMITTED,
    property_: Annotated[
        list[str] | None, property_option("output", PRINTER_PROPERTIES, "--formatter-property")
    ] = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    client_settings: Annotated[
        list[str] | None, client_settings_option("--consumer-property", "--command-property")
    ] = None,
    json: Json = False,
) -> None:
    """Print the records of a topic until Ctrl-C, or until one of the limits is reached.

    With --json each record is one JSON object on a line of its own.

    \b
    Examples:
      ottla consume clicks --from-beginning -n 10
      ottla consume clicks --from -1h --to -30m
      ottla consume clicks --from 2026-01-31T13:00:00 -e --json
      ottla consume clicks -p 0 -o 42 -f '%k: %v\\n'
      ottla consume clicks --group reports --print-key
    """
    beginning = _start(group, partition, start, stop, from_beginning)
    if follow and (exit_at_end or stop is not None):
        raise typer.BadParameter("--follow contradicts --exit-at-end and --to; leave one out")
    if template is not None and json:
        raise typer.BadParameter("--format and --json are two output formats; leave one out")
    limits = Limits(max_messages, None if timeout_ms is None else timeout_ms / 1000, exit_at_end)
    switches = {
        "print.key": print_key,
        "print.timestamp": print_timestamp,
        "print.partition": print_partition,
        "print.offset": print_offset,
        "print.headers": print_headers,
    }
    try:
        printer = RecordPrinter(json, switches, properties(property_, PRINTER_PROPERTIES), template)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--format") from error
    client = Client(bootstrap_server, client_settings)
    progress = Progress(shown=not on_terminal())
    defaults = {"isolation.level": isolation_level.value}
    _run(ConsumerSession(client, topic, beginning, limits, printer, progress, defaults))
    progress.clear()
    _report(json, progress, exit_at_end and beginning.is_at_end)


def _run(session: ConsumerSession) -> None:
    try:
        session.begin()
        session.run()
    except KeyboardInterrupt:
        pass
    finally:
        session.close()


def _report(json: bool, progress: Progress, started_at_end: bool) -> None:
    for_person = sys.stderr.isatty()
    if not json or for_person:
        rate = f" ({progress.rate()})" if for_person and progress.has_rate else ""
        note(f"Processed a total of {progress.records} messages{rate}")
    if for_person and started_at_end and not progress.records:
        note("Reading started at the end of the topic; --from-beginning reads the records that are already there.")


def _start(
    group: str | None, partition: int | None, start: str | None, stop: str | None, from_beginning: bool
) -> Start:
    if partition is not None and group is not None:
        raise typer.BadParameter("a group chooses its partitions; leave out --partition or --group")
    if start is not None and from_beginning:
        raise typer.BadParameter("--from-beginning and --from (--offset) both say where to start; leave one out")
    first = position.EARLIEST if from_beginning else position.LATEST
    if start is not None:
        first = _position(start, "--from")
    last = None if stop is None else _position(stop, "--to")
    if group is not None and (last is not None or first.kind not in (Kind.EARLIEST, Kind.LATEST)):
        raise typer.BadParameter(
            "a group starts at its committed offsets; leave out --group, or move them with `ottla groups reset-offsets`"
        )
    if last is not None and start is None:
        first = position.EARLIEST
    return Start(group, partition, first, last)


def _position(text: str, option: str) -> Position:
    try:
        return parse_position(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error
