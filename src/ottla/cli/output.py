"""What people and programs read: tables, messages and JSON; colours and frames only on a terminal."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TextIO

import typer

from ottla.cli.command_error import CommandError

Cell = str | int | None
"""One field of a table; None is printed as a dash, so that every row keeps its number of columns."""


def on_terminal() -> bool:
    return sys.stdout.isatty()


def print_json(document: object) -> None:
    print(json.dumps(document, indent=2 if on_terminal() else None, ensure_ascii=False))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    if on_terminal():
        _print_rich_table(columns, rows)
    else:
        _print_plain_table([columns, *([_text(cell) for cell in row] for row in rows)])


def say(text: str) -> None:
    """Report that something was done."""
    print(_styled(text, typer.colors.GREEN, sys.stdout))


def note(text: str) -> None:
    """Tell a person something that is not part of the answer, so it goes beside it."""
    print(_styled(text, typer.colors.YELLOW, sys.stderr), file=sys.stderr)


def complain(text: str) -> None:
    print(_styled(text, typer.colors.RED, sys.stderr), file=sys.stderr)


def each(names: Iterable[str], act: Callable[[str], None], done: str, sentence: str, json: bool) -> None:
    """Act on every name, report what was done, and only then fail for what was not."""
    succeeded: list[str] = []
    failures: list[str] = []
    for name in dict.fromkeys(names):
        try:
            act(name)
        except CommandError as failure:
            failures.append(str(failure))
            continue
        succeeded.append(name)
        if not json:
            say(sentence.format(name))
    if json and (succeeded or not failures):
        print_json({done: succeeded})
    if failures:
        raise CommandError("\n".join(failures))


def styled(text: str, colour: str) -> str:
    """Coloured for standard output, where that is a terminal that shows colours."""
    return _styled(text, colour, sys.stdout)


def _styled(text: str, colour: str, stream: TextIO) -> str:
    plain = not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if plain else typer.style(text, fg=colour)


def _text(cell: Cell) -> str:
    return "-" if cell is None or cell == "" else str(cell)


def _print_plain_table(lines: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(field.ljust(width) for field, width in zip(line, widths, strict=True)).rstrip())


def _print_rich_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        is_number = bool(rows) and all(isinstance(row[number], int) for row in rows)
        table.add_column(column, justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_text(cell)) for cell in row))
    Console(highlight=False).print(table)
