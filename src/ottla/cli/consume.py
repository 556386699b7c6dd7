"""`ottla consume`: records in, lines out."""

from typing import Annotated

import typer

from ottla.cli.client import Client
from ottla.cli.consumer_session import NAMED_OFFSETS, ConsumerSession, Limits, Start
from ottla.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    BootstrapServer,
    ClientSettings,
    Json,
    properties,
    property_option,
    single,
)
from ottla.cli.output import note
from ottla.cli.record_printer import PRINTER_PROPERTIES, RecordPrinter

app = single()


@app.command()
def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic to read.", show_default=False)],
    from_beginning: Annotated[
        bool,
        typer.Option("--from-beginning", help="Start at the oldest record, unless the group has committed offsets."),
    ] = False,
    group: Annotated[
        str | None,
        typer.Option("--group", metavar="NAME", help="Read as a member of this consumer group and commit offsets."),
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", metavar="N", min=0, help="Read only this partition.")
    ] = None,
    offset: Annotated[
        str | None,
        typer.Option("--offset", metavar="OFFSET", help="With --partition: a number, `earliest` or `latest`."),
    ] = None,
    max_messages: Annotated[
        int | None, typer.Option("--max-messages", metavar="N", min=1, help="Stop after so many records.")
    ] = None,
    timeout_ms: Annotated[
        int | None, typer.Option("--timeout-ms", metavar="MS", min=0, help="Stop when no record comes for so long.")
    ] = None,
    exit_at_end: Annotated[bool, typer.Option("--exit-at-end", help="Stop at the end of the topic.")] = False,
    print_key: Annotated[bool, typer.Option("--print-key", help="Print the key before the value.")] = False,
    print_timestamp: Annotated[bool, typer.Option("--print-timestamp", help="Print when it was written.")] = False,
    print_partition: Annotated[bool, typer.Option("--print-partition", help="Print the partition.")] = False,
    print_offset: Annotated[bool, typer.Option("--print-offset", help="Print the offset.")] = False,
    print_headers: Annotated[bool, typer.Option("--print-headers", help="Print the headers.")] = False,
    property_: Annotated[list[str] | None, property_option("output", PRINTER_PROPERTIES)] = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    client_settings: ClientSettings = None,
    json: Json = False,
) -> None:
    """Print the records of a topic until Ctrl-C, or until one of the limits is reached.

    With --json each record is one JSON object on a line of its own.

    \b
    Examples:
      ottla consume clicks --from-beginning --max-messages 10
      ottla consume clicks --group reports --print-key
      ottla consume clicks --partition 0 --offset 42 --exit-at-end --json
    """
    start = _start(group, partition, offset, from_beginning)
    limits = Limits(max_messages, None if timeout_ms is None else timeout_ms / 1000, exit_at_end)
    switches = {
        "print.key": print_key,
        "print.timestamp": print_timestamp,
        "print.partition": print_partition,
        "print.offset": print_offset,
        "print.headers": print_headers,
    }
    printer = RecordPrinter(json, switches, properties(property_, PRINTER_PROPERTIES))
    _run(ConsumerSession(Client(bootstrap_server, client_settings), topic, start, limits, printer))
    if not json:
        note(f"Processed a total of {printer.count} messages")


def _run(session: ConsumerSession) -> None:
    try:
        session.begin()
        session.run()
    except KeyboardInterrupt:
        pass
    finally:
        session.close()


def _start(group: str | None, partition: int | None, offset: str | None, from_beginning: bool) -> Start:
    if partition is not None and group is not None:
        raise typer.BadParameter("a group chooses its partitions; leave out --partition or --group")
    if offset is not None and partition is None:
        raise typer.BadParameter("--offset needs --partition")
    if offset is not None and from_beginning:
        raise typer.BadParameter("--from-beginning and --offset both say where to start; leave one out")
    if offset is not None and offset not in NAMED_OFFSETS and not offset.isdecimal():
        raise typer.BadParameter("it is a number, `earliest` or `latest`", param_hint="--offset")
    return Start(group, partition, offset or ("earliest" if from_beginning else "latest"))
