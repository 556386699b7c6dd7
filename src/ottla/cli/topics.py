"""`ottla topics ...`"""

from collections.abc import Sequence
from typing import Annotated

import typer

from ottla.cli.admin import LATEST, Admin, Topic
from ottla.cli.client import Client
from ottla.cli.command_error import CommandError
from ottla.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    BootstrapServer,
    ClientSettings,
    Json,
    TopicCommand,
    family,
    key_values,
)
from ottla.cli.output import Cell, each, human_bytes, print_json, say
from ottla.cli.topic_description import TopicDescription, describe_topics
from ottla.cli.watch import Count, Interval, Rates, Reading, per_second, watch
from ottla.model import INTERNAL_TOPICS, TopicPartition

app = family("Create, list, describe, watch, alter and delete topics.")

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the topic; --topic NAME is accepted too.", show_default=False)
]
Names = Annotated[
    list[str], typer.Argument(metavar="NAME", help="Names of topics; --topic NAME is accepted too.", show_default=False)
]


@app.command(cls=TopicCommand)
def create(
    names: Names,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions",
            "-p",
            metavar="N",
            min=1,
            help="Number of partitions; default: num.partitions of the broker.",
        ),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor",
            "-r",
            metavar="N",
            min=1,
            help="Replicas of each partition; default: that of the broker.",
        ),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", "-c", metavar="KEY=VALUE", help="Setting of the topic; may be repeated."),
    ] = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Succeed if the topic already exists.")
    ] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    client_settings: ClientSettings = None,
    json: Json = False,
) -> None:
    """Create topics.

    \b
    Examples:
      ottla topics create clicks --partitions 3
      ottla topics create users --config cleanup.policy=compact --if-not-exists
    """
    settings = key_values(config, "--config")
    admin = Admin(Client(bootstrap_server, client_settings))
    existing = set(admin.cluster().topics) if if_not_exists else set()

    def create_one(name: str) -> None:
        admin.create_topic(name, partitions, replication_factor, settings)

    each([name for name in names if name not in existing], create_one, "created", "Created topic {}.", json)


@app.command("list")
def list_topics(
    exclude_internal: Annotated[
        bool, typer.Option("--exclude-internal", help="Leave out internal topics such as __consumer_offsets.")
    ] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    client_settings: ClientSettings = None,
    json: Json = False,
) -> None:
    """List the names of all topics.

    \b
    Examples:
      ottla topics list
      ottla topics list --exclude-internal --json
    """
    names = Admin(Client(bootstrap_server, client_settings)).cluster().topics
    if exclude_internal:
        names = [name for name in names if name not in INTERNAL_TOPICS]
    if json:
        print_json(names)
    else:
        print(*names, sep="\n", end="\n" if names else "")


@app.command(cls=TopicCommand)
def describe(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME", help="Names of topics. Default: all topics; the table leaves out internal ones."
        ),
    ] = None,
    kafka: Annotated[
        bool, typer.Option("--kafka", help="Print the text of kafka-topics.sh --describe, for scripts that parse it.")
    ] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    client_settings: ClientSettings = None,
    json: Json = False,
) -> None:
    """Show partitions, offsets, sizes and settings.

    \b
    Examples:
      ottla topics describe clicks
      ottla topics describe clicks --kafka
      ottla topics describe clicks --json
    """
    admin = Admin(Client(bootstrap_server, client_settings))
    chosen = list(dict.fromkeys(names or admin.cluster().topics))
    if not names and not kafka and not json:
        chosen = [name for name in chosen if name not in INTERNAL_TOPICS]
    descriptions = describe_topics(admin, chosen)
    if json:
        print_json([description.document() for description in descriptions])
        return
    for number, description in enumerate(descriptions):
        if kafka:
            description.print_as_kafka()
            continue
        if number:
            print()
        description.print_for_person()


@app.command("watch", cls=TopicCommand)
def watch_topics(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Names of topics; default: all but internal topics.")
    ] = None,
    interval: Interval = 2.0,
    count: Count = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    client_settings: ClientSettings = None,
    json: Json = False,
) -> None:
    """Show sizes and write rates until Ctrl-C.

    Without a terminal, and with --json, each topic is one line per reading.

    \b
    Examples:
      ottla topics watch
      ottla topics watch clicks --interval 5
    """
    admin = Admin(Client(bootstrap_server, client_settings))
    rates = Rates()

    def read(now: float) -> Reading:
        chosen = names or [name for name in admin.cluster().topics if name not in INTERNAL_TOPICS]
        return _reading(describe_topics(admin, list(dict.fromkeys(chosen))), rates, now)

    watch(read, interval, count, json)


def _reading(descriptions: Sequence[TopicDescription], rates: Rates, now: float) -> Reading:
    rows: list[list[Cell]] = []
    lines: list[dict[str, str | int | float | None]] = []
    for each_topic in descriptions:
        name, size = each_topic.topic.name, each_topic.size
        records = rates.rate((name, "records"), each_topic.end, now)
        written = None if size is None else rates.rate((name, "bytes"), size, now)
        rows.append(
            [
                name,
                len(each_topic.topic.partitions),
                f"{each_topic.records:,}",
                None if size is None else human_bytes(size),
                per_second(records),
                None if written is None else human_bytes(written),
                each_topic.under_replicated,
                each_topic.without_leader,
            ]
        )
        lines.append(
            {
                "topic": name,
                "records": each_topic.records,
                "bytes": size,
                "records_per_second": records,
                "bytes_per_second": written,
                "under_replicated": each_topic.under_replicated,
                "without_leader": each_topic.without_leader,
            }
        )
    columns = ["TOPIC", "PARTITIONS", "RECORDS", "SIZE", "RECORDS/S", "BYTES/S", "UNDER-REPLICATED", "NO-LEADER"]
    return Reading("Topics", columns, rows, lines)


@app.command(cls=TopicCommand)
def alter(
    name: Name,
    partitions: Annotated[
        int,
        typer.Option(
            "--partitions",
            "-p",
            metavar="N",
            min=1,
            help="New number of partitions, larger than before.",
            show_default=False,
        ),
    ],
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    client_settings: ClientSettings = None,
    json: Json = False,
) -> None:
    """Add partitions to a topic. New records may then go to another partition than older records with the same key.

    \b
    Example:
      ottla topics alter clicks --partitions 6
    """
    Admin(Client(bootstrap_server, client_settings)).create_partitions(name, partitions)
    if json:
        print_json({"topic": name, "partitions": partitions})
    else:
        say(f"Topic {name} now has {partitions} partitions.")


@app.command(cls=TopicCommand)
def delete(
    names: Names,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Succeed if the topic does not exist.")] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    client_settings: ClientSettings = None,
    json: Json = False,
) -> None:
    """Delete topics and all their records.

    \b
    Examples:
      ottla topics delete clicks
      ottla topics delete clicks views --if-exists
    """
    admin = Admin(Client(bootstrap_server, client_settings))
    if if_exists:
        existing = set(admin.cluster().topics)
        names = [name for name in names if name in existing]
    each(names, admin.delete_topic, "deleted", "Deleted topic {}.", json)


@app.command("delete-records", cls=TopicCommand)
def delete_records(
    name: Name,
    before_offset: Annotated[
        str,
        typer.Option(
            "--before-offset",
            metavar="OFFSET",
            help="First offset to keep, or `latest` to delete all records.",
            show_default=False,
        ),
    ],
    partition: Annotated[
        list[int] | None,
        typer.Option(
            "--partition", "-p", metavar="N", min=0, help="Partition; may be repeated. Default: all partitions."
        ),
    ] = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    client_settings: ClientSettings = None,
    json: Json = False,
) -> None:
    """Delete the oldest records of a topic, up to an offset.

    \b
    Examples:
      ottla topics delete-records clicks --partition 0 --before-offset 1000
      ottla topics delete-records clicks --before-offset latest
    """
    if not before_offset.isdecimal() and before_offset != "latest":
        raise typer.BadParameter("must be a number or `latest`", param_hint="--before-offset")
    admin = Admin(Client(bootstrap_server, client_settings))
    (topic,) = admin.describe_topics([name])
    chosen = _choose_partitions(topic, partition or [])
    ends = admin.offsets(chosen, LATEST) if before_offset == "latest" else dict.fromkeys(chosen, int(before_offset))
    starts = admin.delete_records(ends)
    if json:
        print_json([{"topic": name, "partition": key.partition, "earliest": starts[key]} for key in sorted(starts)])
    else:
        for key in sorted(starts):
            say(f"Partition {key.partition} of {name} now starts at offset {starts[key]}.")


def _choose_partitions(topic: Topic, numbers: Sequence[int]) -> list[TopicPartition]:
    unknown = set(numbers) - {partition.number for partition in topic.partitions}
    if unknown:
        raise CommandError(
            f"Topic '{topic.name}' has no partition {min(unknown)}; it has {len(topic.partitions)}, numbered from 0."
        )
    return [key for key in topic.topic_partitions() if not numbers or key.partition in numbers]
