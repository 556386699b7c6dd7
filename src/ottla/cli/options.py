"""Options that several commands share, so that they are named and explained alike everywhere."""

from collections.abc import Iterable
from typing import Annotated, Any

import typer

DEFAULT_BOOTSTRAP_SERVER = "127.0.0.1:9092"

BootstrapServer = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        metavar="HOST:PORT",
        envvar="OTTLA_BOOTSTRAP_SERVER",
        help="Broker to ask first; several are joined with commas.",
    ),
]
ClientSettings = Annotated[
    list[str] | None,
    typer.Option("-X", metavar="KEY=VALUE", help="Setting of the Kafka client (librdkafka); may be repeated."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of text for people.")]


def family(summary: str) -> typer.Typer:
    """A group of commands that share a noun, such as `ottla topics ...`. Help is plain text, at a terminal too: frames
    leave the words too little room."""
    return typer.Typer(help=summary, no_args_is_help=True, rich_markup_mode=None, add_completion=False)


def single() -> typer.Typer:
    """A noun that is itself a command, such as `ottla produce`."""
    return typer.Typer(rich_markup_mode=None, add_completion=False)


def key_values(pairs: Iterable[str] | None, option: str) -> dict[str, str]:
    """Read `key=value` arguments; anything else is wrong usage."""
    settings: dict[str, str] = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not key.strip() or not equals:
            raise typer.BadParameter(f"{pair!r} is not of the form KEY=VALUE", param_hint=option)
        settings[key.strip()] = value
    return settings


def property_option(kind: str, known: Iterable[str]) -> Any:
    """Kafka's `--property`, for people and scripts that know it."""
    text = f"Kafka's name for an {kind} setting: {', '.join(known)}; may be repeated."
    return typer.Option("--property", metavar="KEY=VALUE", help=text)


def properties(pairs: Iterable[str] | None, known: Iterable[str]) -> dict[str, str]:
    """Read Kafka's `--property` arguments, and refuse the ones that would have no effect."""
    settings = key_values(pairs, "--property")
    unknown = sorted(set(settings) - set(known))
    if unknown:
        raise typer.BadParameter(f"{unknown[0]} is not one of {', '.join(known)}", param_hint="--property")
    return settings
