"""Options that several commands share, so that they have the same names and help texts everywhere."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

DEFAULT_BOOTSTRAP_SERVER = "127.0.0.1:9092"


def client_settings_option(*names: str) -> Any:
    """`-X`, with Kafka's own names for the same option."""
    return typer.Option(
        "-X", *names, metavar="KEY=VALUE", help="Setting of the Kafka client (librdkafka); may be repeated."
    )


BootstrapServer = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        "-b",
        metavar="HOST:PORT",
        envvar="OTTLA_BOOTSTRAP_SERVER",
        help="Address of a broker; separate several with commas.",
    ),
]
ClientSettings = Annotated[list[str] | None, client_settings_option()]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


class TopicCommand(TyperCommand):
    """Accepts the topic as an argument, and as `--topic NAME` as Kafka's tools do."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, as_arguments(args, ("--topic", "-t")))


class GroupCommand(TyperCommand):
    """Accepts the consumer group as an argument, and as `--group NAME` as Kafka's tools do."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, as_arguments(args, ("--group", "-g")))


def as_arguments(args: Sequence[str], options: Sequence[str]) -> list[str]:
    """Replace `--topic NAME` and `--topic=NAME` by `NAME`."""
    replaced: list[str] = []
    rest = iter(args)
    for text in rest:
        name, equals, value = text.partition("=")
        if text == "--":
            replaced += [text, *rest]
        elif text in options:
            replaced += [following] if (following := next(rest, None)) is not None else [text]
        elif equals and name in options:
            replaced.append(value)
        else:
            replaced.append(text)
    return replaced


def family(summary: str) -> typer.Typer:
    """A group of commands that share a noun, such as `ottla topics ...`. Help is plain text on a terminal too, because
    frames leave the text too little width."""
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


def property_option(kind: str, known: Iterable[str], *others: str) -> Any:
    """Kafka's `--property` option."""
    text = f"Kafka's name for an {kind} setting: {', '.join(known)}; may be repeated."
    return typer.Option("--property", *others, metavar="KEY=VALUE", help=text)


def properties(pairs: Iterable[str] | None, known: Iterable[str]) -> dict[str, str]:
    """Read Kafka's `--property` arguments, and reject those that would have no effect."""
    settings = key_values(pairs, "--property")
    unknown = sorted(set(settings) - set(known))
    if unknown:
        raise typer.BadParameter(f"{unknown[0]} is not one of {', '.join(known)}", param_hint="--property")
    return settings
