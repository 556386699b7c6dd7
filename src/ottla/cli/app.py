"""The tree of commands. A family's module is imported only when one of its commands runs."""

import importlib
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

import ottla
from ottla.cli.command_error import CommandError
from ottla.cli.output import complain

FAMILIES = {
    "topics": "Create, list, describe, alter and delete topics.",
    "produce": "Write lines from standard input or a file to a topic.",
    "consume": "Print the records of a topic.",
    "groups": "List, describe, reset and delete consumer groups.",
    "configs": "Show and change settings of topics, brokers and groups.",
    "pipeline": "Run and watch pipelines on Spark.",
    "sql": "Ask topics a question in SQL.",
    "cluster": "Run several brokers on this machine as one cluster.",
    "zookeeper": "Run a ZooKeeper server for development.",
    "doctor": "Check that a broker answers and what it advertises.",
}


class LazyFamilies(TyperGroup):
    """Lists every family from the table above, and imports one only to run it."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        if name in FAMILIES:
            command = get_command(importlib.import_module(f"ottla.cli.{name}").app)
        return name, command, rest

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except CommandError as failure:
            complain(str(failure))
            raise typer.Exit(1) from failure
        except BrokenPipeError as gone:
            raise typer.Exit(0) from gone
        except OSError as error:
            complain(
                f"The system refused: {error.strerror or error}{f' ({error.filename})' if error.filename else ''}."
            )
            raise typer.Exit(1) from error


app = typer.Typer(
    cls=LazyFamilies,
    rich_markup_mode=None,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"ottla {ottla.__version__}")
        raise typer.Exit


@app.callback()
def root(
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """A Kafka broker and its tools.

    \b
    Examples:
      ottla serve
      ottla topics create clicks --partitions 3
      ottla consume clicks --from-beginning
    """


@app.command(
    "serve",
    help="Start a broker.",
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def serve(context: typer.Context) -> None:
    from ottla.cli.serve import run

    raise typer.Exit(run(context.args))


def _declare_families() -> None:
    for name, summary in FAMILIES.items():
        app.command(name, help=summary)(lambda: None)


_declare_families()
