"""The tree of commands. The module of a family is imported only when one of its commands runs."""

import importlib
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption
from typer.main import get_command

import ottla
from ottla.cli.command_error import CommandError
from ottla.cli.output import complain

FAMILIES = {
    "topics": "Create, list, describe, watch, alter and delete topics.",
    "produce": "Write lines from standard input or files to a topic.",
    "consume": "Print the records of a topic.",
    "groups": "List, describe, watch, reset and delete consumer groups.",
    "configs": "Show and change settings of topics, brokers and groups.",
    "pipeline": "Run and inspect Spark pipelines.",
    "sql": "Query topics with SQL.",
    "cluster": "Run a cluster on this machine; check, balance and drain any cluster.",
    "zookeeper": "Run a ZooKeeper server for development.",
    "doctor": "Check the health of a cluster: brokers, addresses, partitions.",
    "completion": "Print a completion script for bash, zsh or fish.",
}


class LazyFamilies(TyperGroup):
    """Lists every family from the table above. The module of a family is imported when one of its commands runs, or
    when a shell completes one."""

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
            file = f" ({error.filename})" if error.filename else ""
            complain(f"The operating system reported: {error.strerror or error}{file}.")
            raise typer.Exit(1) from error


app = typer.Typer(
    cls=LazyFamilies,
    rich_markup_mode=None,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
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

    Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted with Ctrl-C.
    """


class ServeCommand(TyperCommand):
    """Has its own parser, so that a broker starts without the libraries of the other commands."""

    def get_params(self, ctx: Any) -> Any:
        if not ctx.resilient_parsing:
            return super().get_params(ctx)
        from ottla.cli.serve import option_names

        # A shell completes the command line.
        return [TyperOption(param_decls=[name]) for name in option_names()]


@app.command(
    "serve",
    cls=ServeCommand,
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
