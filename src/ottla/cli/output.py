"""Tables, messages and JSON on standard output and standard error. Colours and frames appear only on a terminal."""

import json
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TextIO

import typer

from ottla.cli.command_error import CommandError

Cell = str | int | None
"""One field of a table. None is printed as a dash, so that every row has the same number of fields."""


GAP = 2
"""Spaces between two columns of a table."""

SHOWN = 5
"""How many names of a long list a sentence has."""

BREAKS = ("", "- ", "-/ ")
"""After which characters headings are broken; the first with which a table fits, or the last."""


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


def count(number: int, noun: str) -> str:
    """`1 record`, `1,000 records`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def first_few(things: Collection[object], separator: str = ", ") -> str:
    """`a, b, c, d, e and 3 more`."""
    shown = separator.join(str(thing) for thing in list(things)[:SHOWN])
    return shown if len(things) <= SHOWN else f"{shown} and {len(things) - SHOWN:,} more"


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


def rich_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]], red: Collection[int] = ()) -> Any:
    """A table for a terminal, with the rows of `red` in red. Columns of numbers are aligned on the right. A table that
    is too wide gets headings of several lines, and then folded cells."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    cells = [[_text(cell) for cell in row] for row in rows]
    longest = [max(map(len, column), default=0) for column in zip(*cells, strict=True)] or [0] * len(columns)
    available = Console().width - GAP * (len(columns) - 1)
    for ends in BREAKS:
        headings = [re.split(f"(?<=[{ends}])", column) if ends else [column] for column in columns]
        needed = [max(map(len, parts)) for parts in headings]
        if sum(map(max, needed, longest)) <= available:
            break
    table = Table(box=box.SIMPLE_HEAD, padding=(0, GAP - 1, 0, 0), pad_edge=False, show_edge=False, header_style="bold")
    for number, parts in enumerate(headings):
        table.add_column(
            "\n".join(parts),
            justify="right" if rows and all(_is_number(row[number]) for row in rows) else "left",
            overflow="fold",
            min_width=needed[number] if sum(needed) <= available else None,
        )
    for number, row in enumerate(cells):
        table.add_row(*map(Text, row), style="red" if number in red else None)
    return table


def _is_number(cell: Cell) -> bool:
    """Whether a cell is a number, a number with a unit such as `1.5 MB`, or missing."""
    return not cell or isinstance(cell, int) or (cell[:1].isdigit() and cell.split(" ")[0].strip(",.0123456789") == "")
