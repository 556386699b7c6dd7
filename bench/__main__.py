"""`python -m bench`: run the benchmarks, print the table, write the page."""

import argparse
import resource
import signal
import sys
from pathlib import Path
from types import FrameType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench import kafka, report
from bench.case import FULL, QUICK, Case
from bench.machine import this_machine
from bench.run import Results, run, steps
from bench.workloads import FAMILIES

_DOCS = "docs"
_REPEATS = 3


def main() -> int:
    arguments = _parse()
    console = Console(stderr=True)
    problem = kafka.missing()
    if problem:
        console.print(f"{problem}.")
        return 1
    signal.signal(signal.SIGTERM, _interrupt)
    _raise_file_limit()
    scale = QUICK if arguments.quick else FULL
    repeats = arguments.repeats or (1 if arguments.quick else _REPEATS)
    families = [arguments.only] if arguments.only else list(FAMILIES)
    cases = [case for family in families for case in FAMILIES[family](scale)]
    try:
        results = _run_with_progress(console, cases, repeats, arguments.quick)
    except KeyboardInterrupt:
        console.print("Stopped; brokers are down and their data is gone.")
        return 130
    rows = results.rows(cases)
    report.print_table(Console(width=None if sys.stdout.isatty() else 200), rows)
    for failure in results.failures:
        console.print(f"failed: {failure}", style="red", markup=False, highlight=False, soft_wrap=True)
    output = _output(arguments)
    if output is not None:
        report.write(output, rows, results.measurements, this_machine(), 5 * scale.seconds, repeats)
        console.print(f"Written: {output / report.PAGE}")
    return 1 if results.failures else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Ottla beside Apache Kafka.")
    parser.add_argument("--only", choices=FAMILIES, help="run one family; the page is written only with --output")
    parser.add_argument("--repeats", type=int, help=f"measurements per case and broker (default {_REPEATS})")
    parser.add_argument(
        "--quick", action="store_true", help="tiny loads, to see that it works; the numbers mean little"
    )
    parser.add_argument("--output", type=Path, help=f"where to write {report.PAGE} (default {_DOCS}, for a whole run)")
    return parser.parse_args()


def _output(arguments: argparse.Namespace) -> Path | None:
    chosen: Path | None = arguments.output
    return chosen or (None if arguments.only or arguments.quick else Path(_DOCS))


def _run_with_progress(console: Console, cases: list[Case], repeats: int, quick: bool) -> Results:
    columns = (
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=sum(steps(case, repeats) for case in cases))
        return run(
            cases,
            repeats,
            QUICK if quick else FULL,
            lambda text: progress.update(task, description=text),
            lambda: progress.advance(task),
        )


def _interrupt(number: int, frame: FrameType | None) -> None:
    """A polite kill ends like Ctrl-C: through the `with` blocks that stop the brokers."""
    raise KeyboardInterrupt


def _raise_file_limit() -> None:
    """5,000 connections need as many files here and in each broker."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    sys.exit(main())
