"""`python -m tests.torture`: runs torture with progress and a verdict. `make torture MINUTES=5 SEED=7` is the same."""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.torture.brokers import BROKERS
from tests.torture.plan import Plan
from tests.torture.run import Outcome, Run


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, help="of a run whose schedule is to be repeated")
    parser.add_argument("--copiers", type=int, default=5)
    parser.add_argument("--rate", type=int, default=800, help="records a second")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--broker", choices=sorted(BROKERS), default="ottla", help="the broker to start, and to kill")
    where.add_argument("--bootstrap-server", help="a broker that runs already, and is left alone")
    return parser.parse_args()


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))
    given = arguments()
    seed = random.randrange(1_000_000) if given.seed is None else given.seed
    kafka_copiers = 1 if os.environ.get("KAFKA_JARS") and shutil.which("java") else 0
    plan = Plan(seed, given.minutes * 60, given.copiers, kafka_copiers, rate=given.rate)
    began = time.monotonic()
    directory = Path(tempfile.mkdtemp(prefix="ottla-torture-"))

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {text}", flush=True)

    say(f"seed {seed}, {given.minutes:g} min, {plan.copiers} copiers and {kafka_copiers} of Kafka's, {plan.strategy}")
    if given.bootstrap_server:
        outcome = Run(plan, given.bootstrap_server, None, directory, say).run()
    else:
        broker = BROKERS[given.broker](directory)
        try:
            broker.start()
            outcome = Run(plan, broker.bootstrap_servers, broker, directory, say).run()
        finally:
            broker.kill()
    return conclude(outcome, seed, given.minutes, directory, say)


def conclude(outcome: Outcome, seed: int, minutes: float, directory: Path, say: Callable[[str], None]) -> int:
    say(f"faults: {', '.join(f'{count} {kind}' for kind, count in sorted(outcome.faults.items()))}")
    for end, count in sorted(outcome.transactions.items()):
        say(f"{count} {end}")
    say(f"{outcome.produced} records in, {outcome.committed} out, {outcome.uncommitted} with those not committed")
    if not outcome.findings:
        say("PASS: the output is exactly the input, and no transaction is left open")
        shutil.rmtree(directory)
        return 0
    for finding in outcome.findings:
        say(f"FOUND {finding}")
    say(f"FAIL: {len(outcome.findings)} findings. Logs and data: {directory}")
    say(f"The same schedule again: make torture SEED={seed} MINUTES={minutes:g}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
