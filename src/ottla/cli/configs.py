"""`ottla configs ...`"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

import typer

from ottla.cli.admin import Admin, Config
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
from ottla.cli.output import note, on_terminal, print_json, print_table, say

app = family("Show and change settings of topics, brokers and groups.")


class EntityType(enum.StrEnum):
    """Kafka's names for the kinds of things that have settings."""

    TOPICS = "topics"
    BROKERS = "brokers"
    GROUPS = "groups"


OVERRIDE_SOURCES = {
    "topic": ("DYNAMIC_TOPIC_CONFIG",),
    "broker": ("DYNAMIC_BROKER_CONFIG", "DYNAMIC_DEFAULT_BROKER_CONFIG"),
    "group": ("GROUP_CONFIG",),
}

EntityTypeOption = Annotated[
    EntityType | None, typer.Option("--entity-type", help="Kind of the thing that has the settings.")
]
EntityName = Annotated[
    str | None, typer.Option("--entity-name", metavar="NAME", help="Name of the topic or group, or id of the broker.")
]
TopicName = Annotated[
    str | None, typer.Option("--topic", metavar="NAME", help="Short for --entity-type topics --entity-name NAME.")
]
BrokerId = Annotated[
    str | None, typer.Option("--broker", metavar="ID", help="Short for --entity-type brokers --entity-name ID.")
]
GroupName = Annotated[
    str | None, typer.Option("--group", metavar="NAME", help="Short for --entity-type groups --entity-name NAME.")
]


@dataclass(frozen=True, slots=True)
class Entity:
    kind: str
    """`topic`, `broker` or `group`."""
    name: str


@app.command()
def describe(
    entity_type: EntityTypeOption = None,
    entity_name: EntityName = None,
    topic: TopicName = None,
    broker: BrokerId = None,
    group: GroupName = None,
    everything: Annotated[bool, typer.Option("--all", help="Show all settings, with defaults.")] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    client_settings: ClientSettings = None,
    json: Json = False,
) -> None:
    """Show the changed settings of a topic, a broker or a group, or all settings with --all.

    \b
    Examples:
      ottla configs describe --topic clicks
      ottla configs describe --entity-type brokers --entity-name 1 --all
    """
    entity = _entity(entity_type, entity_name, topic, broker, group)
    admin = Admin(Client(bootstrap_server, client_settings))
    _check_broker(admin, entity)
    configs = admin.configs(entity.kind, entity.name)
    if not everything:
        configs = [config for config in configs if config.source in OVERRIDE_SOURCES[entity.kind]]
    if json:
        print_json([_document(config) for config in configs])
        return
    if not configs:
        note(
            f"{entity.kind.capitalize()} {entity.name} has no changed settings; --all shows all settings with defaults."
        )
    if on_terminal():
        if configs:
            print_table(
                ["NAME", "VALUE", "SOURCE", "READ-ONLY"],
                [(config.name, config.value, config.source, "yes" if config.read_only else "no") for config in configs],
            )
    else:
        _print_as_kafka(entity, configs, everything)


@app.command()
def alter(
    entity_type: EntityTypeOption = None,
    entity_name: EntityName = None,
    topic: TopicName = None,
    broker: BrokerId = None,
    group: GroupName = None,
    add_config: Annotated[
        list[str] | None,
        typer.Option(
            "--add-config",
            metavar="KEY=VALUE,...",
            help="Settings to change; put the values of a list in brackets: KEY=[A,B].",
        ),
    ] = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option("--delete-config", metavar="KEY,...", help="Settings to reset to their default."),
    ] = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    client_settings: ClientSettings = None,
    json: Json = False,
) -> None:
    """Change settings of a topic, a broker or a group.

    \b
    Examples:
      ottla configs alter --topic clicks --add-config retention.ms=3600000,segment.ms=60000
      ottla configs alter --topic clicks --delete-config retention.ms
    """
    entity = _entity(entity_type, entity_name, topic, broker, group)
    added = key_values(split_configs(add_config or ()), "--add-config")
    added = {key: _without_brackets(value) for key, value in added.items()}
    deleted = [key.strip() for text in delete_config or () for key in text.split(",") if key.strip()]
    if not added and not deleted:
        raise typer.BadParameter("give --add-config or --delete-config")
    admin = Admin(Client(bootstrap_server, client_settings))
    _check_broker(admin, entity)
    admin.alter_configs(entity.kind, entity.name, added, deleted)
    if json:
        print_json({entity.kind: entity.name, "added": added, "deleted": deleted})
    else:
        say(f"Completed updating config for {entity.kind} {entity.name}.")


def split_configs(texts: Iterable[str]) -> list[str]:
    """Split at commas outside of square brackets. Brackets hold the values of a list."""
    parts: list[str] = []
    for text in texts:
        current = ""
        depth = 0
        for char in text:
            depth += (char == "[") - (char == "]")
            if char == "," and depth <= 0:
                parts.append(current)
                current = ""
            else:
                current += char
        parts.append(current)
    return [part for part in parts if part.strip()]


def _without_brackets(value: str) -> str:
    return value[1:-1] if value.startswith("[") and value.endswith("]") else value


def _entity(
    entity_type: EntityType | None, entity_name: str | None, topic: str | None, broker: str | None, group: str | None
) -> Entity:
    chosen = [Entity(kind, name) for kind, name in (("topic", topic), ("broker", broker), ("group", group)) if name]
    if entity_type is not None and entity_name:
        chosen.append(Entity(entity_type.value.removesuffix("s"), entity_name))
    if len(chosen) != 1 or (entity_type is None) != (entity_name is None):
        raise typer.BadParameter("name exactly one: --topic, --broker or --group, or --entity-type with --entity-name")
    return chosen[0]


def _check_broker(admin: Admin, entity: Entity) -> None:
    """Check that a broker exists. Only the broker itself answers for its settings, so the request would time out."""
    if entity.kind != "broker":
        return
    present = [str(broker.id) for broker in admin.cluster().brokers]
    if entity.name not in present:
        raise CommandError(f"There is no broker '{entity.name}'; the cluster has {', '.join(present)}.")


def _document(config: Config) -> dict[str, object]:
    return {
        "name": config.name,
        "value": config.value,
        "source": config.source,
        "read_only": config.read_only,
        "sensitive": config.sensitive,
    }


def _print_as_kafka(entity: Entity, configs: list[Config], everything: bool) -> None:
    """The lines of Kafka's `kafka-configs.sh --describe`."""
    print(f"{'All' if everything else 'Dynamic'} configs for {entity.kind} {entity.name} are:")
    for config in configs:
        synonyms = ", ".join(f"{source}:{name}={_shown(value)}" for source, name, value in config.synonyms)
        sensitive = str(config.sensitive).lower()
        print(f"  {config.name}={_shown(config.value)} sensitive={sensitive} synonyms={{{synonyms}}}")


def _shown(value: str | None) -> str:
    return "null" if value is None else value
