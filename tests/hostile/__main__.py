"""`python -m tests.hostile`: random and damaged requests against one broker. `make hostile` runs a million of each."""

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.hostile.run import Plan, Run


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000, help="well-formed ones, and as many damaged ones")
    parser.add_argument("--seed", type=int, help="of a run to repeat")
    parser.add_argument("--connections", type=int, default=24, help="hostile connections at a time")
    parser.add_argument("--minutes", type=float, default=60.0, help="give up after this time")
    given = parser.parse_args()
    seed = random.randrange(1_000_000) if given.seed is None else given.seed
    directory = Path(tempfile.mkdtemp(prefix="ottla-hostile-"))
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {text}", flush=True)

    say(f"seed {seed}, {given.requests} requests of each kind; log and data: {directory}")
    plan = Plan(seed, given.requests, given.connections, given.minutes * 60)
    outcome = Run(plan, directory, say).run()
    for fact in outcome.facts:
        say(fact)
    if not outcome.findings:
        say("PASS: the broker serves, nobody else was disturbed, and nothing is left open")
        shutil.rmtree(directory)
        return 0
    for finding in outcome.findings:
        say(f"FOUND {finding}")
    say(f"FAIL. The same requests again: make hostile SEED={seed} REQUESTS={given.requests}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
