"""`python -m tests.nemesis`: runs a cluster with faults, and prints progress and a verdict. `make torture` runs it
too."""

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.nemesis.cluster import Cluster
from tests.nemesis.run import Plan, Run


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))
    parser = argparse.ArgumentParser(prog="python -m tests.nemesis", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, help="of a run whose schedule is to be repeated")
    parser.add_argument("--brokers", type=int, choices=range(3, 6), default=3)
    parser.add_argument("--store", choices=("zookeeper", "sqlite"), default="zookeeper")
    given = parser.parse_args()
    seed = random.randrange(1_000_000) if given.seed is None else given.seed
    directory = Path(tempfile.mkdtemp(prefix="ottla-nemesis-"))
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {text}", flush=True)

    say(f"seed {seed}, {given.minutes:g} min, {given.brokers} brokers, {given.store}; logs and data: {directory}")
    cluster = Cluster(directory, given.brokers, zookeeper=given.store == "zookeeper")
    try:
        cluster.start()
        outcome = Run(Plan(seed, given.minutes * 60, given.brokers), cluster, say).run()
    finally:
        cluster.close()
    say(f"faults: {', '.join(f'{count} {kind}' for kind, count in sorted(outcome.faults.items()))}")
    say(f"transactions: {', '.join(f'{count} {fate.name.lower()}' for fate, count in outcome.transactions.items())}")
    say(f"{outcome.acknowledged} records acknowledged, {outcome.consumed} read by the group, {outcome.epochs} epochs")
    if not outcome.findings:
        say("PASS: nothing acknowledged is lost, nothing is there twice, and all replicas are the same")
        shutil.rmtree(directory)
        return 0
    for finding in outcome.findings:
        say(f"FOUND {finding}")
    again = f"--seed {seed} --minutes {given.minutes:g} --brokers {given.brokers} --store {given.store}"
    say(f"FAIL. The same schedule again: python -m tests.nemesis {again}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
