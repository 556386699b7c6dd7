"""Run simulation seeds, and print the violated guarantees and how to run each failed seed again."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from sim.run import Result, run_seed

_KEPT = Path(__file__).with_name("kept_seeds.txt")
_SHOWN = 10


def kept_seeds() -> list[int]:
    """Seeds that found a bug in the past."""
    lines = (line.partition("#")[0].strip() for line in _KEPT.read_text().splitlines())
    return [int(line) for line in lines if line]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m sim", description=__doc__)
    parser.add_argument("--seed", type=int, help="run only this seed and print its events")
    parser.add_argument("--seeds", type=int, default=100, help="number of seeds to run (default: %(default)s)")
    parser.add_argument("--first", type=int, help="first seed (default: random)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="number of processes (default: one per core)"
    )
    options = parser.parse_args(arguments)
    if options.seed is not None:
        return _show(options.seed)
    first = random.SystemRandom().randrange(1 << 31) if options.first is None else options.first
    seeds = [*kept_seeds(), *range(first, first + options.seeds)]
    print(f"{len(seeds)} seeds: the kept ones, then from {first} on", flush=True)
    return _run_all(seeds, options.jobs)


def _show(seed: int) -> int:
    result = run_seed(seed, sys.stdout)
    _print(result)
    return bool(result.violations)


def _run_all(seeds: list[int], jobs: int) -> int:
    began = time.monotonic()
    with multiprocessing.Pool(jobs) as pool:
        failed = _report(pool.imap_unordered(run_seed, seeds))
    took = time.monotonic() - began
    print(f"{len(seeds)} seeds in {took:.0f} s ({60 * len(seeds) / took:.0f} a minute), {failed} with violations")
    return bool(failed)


def _report(results: Iterable[Result]) -> int:
    failed = 0
    for result in results:
        if result.violations:
            failed += 1
            _print(result)
    return failed


def _print(result: Result) -> None:
    for violation in result.violations[:_SHOWN]:
        print(f"seed {result.seed}: {violation}")
    if len(result.violations) > _SHOWN:
        print(f"seed {result.seed}: ... and {len(result.violations) - _SHOWN} more")
    if result.violations:
        print(f"seed {result.seed}: to run it again: make sim SEED={result.seed}", flush=True)
    else:
        print(f"seed {result.seed}: {result.acknowledged} records acknowledged, no violation; {result.digest}")


if __name__ == "__main__":
    sys.exit(main())
