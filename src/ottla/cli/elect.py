"""`ottla cluster elect`: preferred and unclean leader elections."""

from typing import Annotated

import typer

from ottla.cli.admin import Admin
from ottla.cli.client import Client
from ottla.cli.command_error import CommandError
from ottla.cli.options import DEFAULT_BOOTSTRAP_SERVER, BootstrapServer, ClientSettings, Json
from ottla.cli.output import count, first_few, print_json, say
from ottla.model import TopicPartition

REASONS = {
    "PREFERRED_LEADER_NOT_AVAILABLE": "the preferred leader is not in sync or not running",
    "ELIGIBLE_LEADERS_NOT_AVAILABLE": "none of the replicas is running",
    "UNKNOWN_TOPIC_OR_PART": "there is no such partition",
}


def elect(
    topics: Annotated[
        list[str] | None, typer.Option("--topic", "-t", metavar="NAME", help="Elect for this topic; may be repeated.")
    ] = None,
    partition: Annotated[
        list[int] | None,
        typer.Option(
            "--partition", "-p", metavar="N", min=0, help="Only this partition of the topic; may be repeated."
        ),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", "--all-topic-partitions", help="Elect for all partitions of the cluster.")
    ] = False,
    unclean: Annotated[
        bool,
        typer.Option(
            "--unclean",
            help="Let a replica that is not in sync lead partitions without a leader. Records that only the other "
            "replicas have are lost.",
        ),
    ] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    client_settings: ClientSettings = None,
    json: Json = False,
) -> None:
    """Make the first replica of each partition its leader, or with --unclean any replica that is running.

    \b
    Examples:
      ottla cluster elect --all
      ottla cluster elect --topic clicks
      ottla cluster elect --topic clicks --partition 3 --unclean
    """
    if bool(topics) == everything:
        raise typer.BadParameter("name topics with --topic, or give --all")
    if partition and len(topics or ()) != 1:
        raise typer.BadParameter("--partition needs exactly one --topic")
    admin = Admin(Client(bootstrap_server, client_settings))
    wanted = None if everything else _partitions(admin, topics or [], partition)
    answer = admin.elect_leaders(wanted, unclean)
    elected = [key for key, error in answer.items() if error is None]
    refused = {key: error for key, error in answer.items() if error not in (None, "ELECTION_NOT_NEEDED")}
    if json:
        print_json(
            {
                "elected": [key._asdict() for key in elected],
                "not_needed": [key._asdict() for key, error in answer.items() if error == "ELECTION_NOT_NEEDED"],
                "failed": [{**key._asdict(), "error": error} for key, error in refused.items()],
            }
        )
    elif elected:
        say(f"Elected the {'' if unclean else 'preferred '}leader of {count(len(elected), 'partition')}.")
    elif not refused:
        say("No election was needed.")
    if refused:
        reasons = [f"{key} ({REASONS.get(error or '', error)})" for key, error in refused.items()]
        raise CommandError(f"{count(len(refused), 'partition')} got no new leader: {first_few(reasons)}.")


def _partitions(admin: Admin, topics: list[str], numbers: list[int] | None) -> list[TopicPartition]:
    """The named partitions. Those of a topic without numbers are all its partitions."""
    found = [key for topic in admin.describe_topics(topics) for key in topic.topic_partitions()]
    return [TopicPartition(topics[0], number) for number in numbers] if numbers else found
