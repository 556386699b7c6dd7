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
    family,
    key_values,
)
from ottla.cli.output import each, on_terminal, print_json, say
from ottla.cli.topic_description import describe_topics
from ottla.model import INTERNAL_TOPICS, TopicPartition

app = family("Create, list, describe, alter and delete topics.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the topic.", show_default=False)]
Names = Annotated[list[str], typer.Argument(metavar="NAME", help="Names of topics.", show_default=False)]


@app.command()
def create(
    names: Names,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions", metavar="N", min=1, help="How many partitions; the broker's num.partitions if unset."
        ),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor", metavar="N", min=1, help="Copies of each partition; the broker's default if unset."
        ),
    ] = None,
    config: Annotated[
        list[str] | None, typer.Option("--config", metavar="KEY=VALUE", help="Setting of the topic; may be repeated.")
    ] = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Be content with a topic that is already there.")
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
        bool, typer.Option("--exclude-internal", help="Leave out the topics Kafka keeps for itself.")
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


@app.command()
def describe(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Names of topics; all of them if left out.")
    ] = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    client_settings: ClientSettings = None,
    json: Json = False,
) -> None:
    """Show partitions, replicas, offsets, sizes and settings.

    \b
    Examples:
      ottla topics describe clicks
      ottla topics describe clicks --json
    """
    admin = Admin(Client(bootstrap_server, client_settings))
    descriptions = describe_topics(admin, list(dict.fromkeys(names or admin.cluster().topics)))
    if json:
        print_json([description.document() for description in descriptions])
        return
    for description in descriptions:
        if on_terminal():
            description.print_for_person()
        else:
            description.print_as_kafka()


@app.command()
def alter(
    name: Name,
    partitions: Annotated[
        int,
        typer.Option(
            "--partitions", metavar="N", min=1, help="New number of partitions; it can only grow.", show_default=False
        ),
    ],
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    client_settings: ClientSettings = None,
    json: Json = False,
) -> None:
    """Give a topic more partitions. Keys may then land in other partitions than before.

    \b
    Example:
      ottla topics alter clicks --partitions 6
    """
    Admin(Client(bootstrap_server, client_settings)).create_partitions(name, partitions)
    if json:
        print_json({"topic": name, "partitions": partitions})
    else:
        say(f"Topic {name} now has {partitions} partitions.")


@app.command()
def delete(
    names: Names,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Be content with a topic that is not there.")] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    client_settings: ClientSettings = None,
    json: Json = False,
) -> None:
    """Delete topics and everything in them.

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


@app.command("delete-records")
def delete_records(
    name: Name,
    before_offset: Annotated[
        str,
        typer.Option(
            "--before-offset",
            metavar="OFFSET",
            help="First offset to keep, or `latest` to keep nothing.",
            show_default=False,
        ),
    ],
    partition: Annotated[
        list[int] | None,
        typer.Option(
            "--partition", metavar="N", min=0, help="Partition to cut; may be repeated, all of them if left out."
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
        raise typer.BadParameter("it is a number or `latest`", param_hint="--before-offset")
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
            f"Topic '{topic.name}' has no partition {min(unknown)}; it has {len(topic.partitions)}, from 0 on."
        )
    return [key for key in topic.topic_partitions() if not numbers or key.partition in numbers]
