"""`python -m bench`: run the benchmarks, print the table, write the page."""

import argparse
import resource
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from bench import kafka, report
from bench.machine import this_machine
from bench.pages import Page
from bench.results import Results, load
from bench.run import expected_seconds, run
from bench.workloads import FAMILIES

_DOCS = Path("docs")
_RAW = Path("build/bench")
_REPEATS = 3
_PRIOR_SECONDS = 60.0
"""Weight of the expected duration against the measured pace in the estimate of the time left."""
_END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> int:
    arguments = _parse()
    console = Console(stderr=True)
    if arguments.report:
        results = load(arguments.report)
        return _show(results, arguments.output, report.pages_of(results), console)
    problem = kafka.missing()
    if problem:
        console.print(f"{problem}.")
        return 1
    for number in _END_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)
    _raise_file_limit()
    families = [family for family in FAMILIES if not arguments.only or family in arguments.only]
    repeats = arguments.repeats or (1 if arguments.quick else _REPEATS)
    results = Results(this_machine(), families, repeats, arguments.quick, arguments.spark_rows or [])
    raw = _RAW / f"{'-'.join(families) if arguments.only else 'all'}.json"
    try:
        _run_with_progress(console, results)
    except KeyboardInterrupt:
        console.print("Stopped. The brokers have ended, and their data is deleted.")
        return 130
    finally:
        results.save(raw)
        console.print(f"Raw results: {raw}")
    if arguments.output:
        return _show(results, arguments.output, report.pages_of(results), console)
    return _show(results, _DOCS, [] if arguments.quick else report.whole_pages_of(results), console)


def _show(results: Results, output: Path | None, pages: Sequence[Page], console: Console) -> int:
    report.print_tables(Console(width=None if sys.stdout.isatty() else 200), results.rows)
    for failure in results.failures:
        console.print(f"failed: {failure}", style="red", markup=False, highlight=False, soft_wrap=True)
    if output is not None:
        for page in pages:
            console.print(f"Written: {report.write(output, results, page)}")
    return 1 if results.failures else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Compare Ottla with Apache Kafka.")
    parser.add_argument(
        "--only",
        choices=FAMILIES,
        nargs="+",
        help="run only these families; a page is written if all of its families were run",
    )
    parser.add_argument("--repeats", type=int, help=f"measurements per case and broker (default {_REPEATS})")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="use tiny loads to test the benchmark itself; the numbers are not meaningful",
    )
    parser.add_argument(
        "--spark-rows",
        type=int,
        nargs="+",
        metavar="N",
        help="number of rows in the topics that Spark reads; one or more sizes",
    )
    parser.add_argument(
        "--output", type=Path, help=f"directory for pages and plots (default {_DOCS}, for complete pages)"
    )
    parser.add_argument("--report", type=Path, metavar="FILE", help="run nothing; show the raw results in FILE")
    return parser.parse_args()


def _run_with_progress(console: Console, results: Results) -> None:
    columns = (
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        TextColumn("{task.description}"),
    )
    total = expected_seconds(results.cases, results.repeats)
    began = time.monotonic()
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=total, left=_left(0.0, total, 0.0))

        def advance(seconds: float) -> None:
            progress.advance(task, seconds)
            done = progress.tasks[task].completed
            progress.update(task, left=_left(done, total, time.monotonic() - began))

        run(results, lambda text: progress.update(task, description=text), advance)


def _left(done: float, total: float, elapsed: float) -> str:
    """The remaining expected time, scaled by the pace of this run."""
    pace = (elapsed + _PRIOR_SECONDS) / (done + _PRIOR_SECONDS)
    minutes = round((total - done) * pace / 60)
    return f"about {minutes} min left" if minutes else "less than a minute left"


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Leave through the `with` blocks that stop the brokers. Further signals are ignored until then."""
    for each in _END_SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


def _raise_file_limit() -> None:
    """5,000 connections need as many file descriptors here and in each broker."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    sys.exit(main())
