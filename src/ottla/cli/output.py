"""Tables, messages and JSON on standard output and standard error. Colours and frames appear only on a terminal."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TextIO

import typer

from ottla.cli.command_error import CommandError

Cell = str | int | None
"""One field of a table. None is printed as a dash, so that every row has the same number of fields."""


def on_terminal() -> bool:
    return sys.stdout.isatty()


def print_json(document: object) -> None:
    print(json.dumps(document, indent=2 if on_terminal() else None, ensure_ascii=False))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    if on_terminal():
        _print_rich_table(columns, rows)
    else:
        _print_plain_table([columns, *([_text(cell) for cell in row] for row in rows)])


def human_bytes(size: float) -> str:
    """`512 B`, `1.5 kB`, `20 MB`: three digits are enough for a person."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 99.5 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:,.1f} TB"


def say(text: str) -> None:
    """Report success on standard output."""
    print(_styled(text, typer.colors.GREEN, sys.stdout))


def note(text: str) -> None:
    """Print a remark to standard error, because standard output holds only the answer."""
    print(_styled(text, typer.colors.YELLOW, sys.stderr), file=sys.stderr)


def complain(text: str) -> None:
    print(_styled(text, typer.colors.RED, sys.stderr), file=sys.stderr)


def each(names: Iterable[str], act: Callable[[str], None], done: str, sentence: str, json: bool) -> None:
    """Apply `act` to every name and report each success; raise one CommandError for all failures at the end."""
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
    """Add a colour if standard output is a terminal that shows colours."""
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
    from rich.console import Console

    Console(highlight=False).print(rich_table(columns, rows))


def rich_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Any:
    """A table for a terminal. Columns of numbers are aligned on the right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        is_number = bool(rows) and all(_is_number(row[number]) for row in rows)
        table.add_column(column, justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_text(cell)) for cell in row))
    return table


def _is_number(cell: Cell) -> bool:
    """Whether a cell is a number, a number with a unit such as `1.5 MB`, or missing."""
    return (
        cell is None or isinstance(cell, int) or (cell[:1].isdigit() and cell.split(" ")[0].strip(",.0123456789") == "")
    )
