"""The demo: starts a broker, traffic and the activity pipelines, and writes a report at the end."""

import contextlib
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import IO

from ottla.pipeline.brokers import Cluster
from ottla.pipeline.failures import PipelineError
from ottla.pipeline.loading import load_part, load_target
from ottla.pipeline.queries import RunSettings
from ottla.pipeline.reporting import build_report
from ottla.pipeline.runner import Observer, Run, spark_log
from ottla.pipeline.session import SHORT_RUN, SessionSettings, require_spark

NAME = "activity"
RATE = 1500
GARBAGE = 0.0005
_READY = "Ottla is ready: PLAINTEXT://"
_START_SECONDS = 30.0
_LEFTOVERS = ("data", "checkpoints", NAME)


def run_demo(base: Path, seconds: float, observer: Observer, environment: MutableMapping[str, str]) -> Path:
    """Returns the path of the report. Deletes the files of an earlier demo in the directory first."""
    require_spark(environment)
    for name in _LEFTOVERS:
        shutil.rmtree(base / name, ignore_errors=True)
    base.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        address = stack.enter_context(_broker(base))
        observer.say(f"The broker listens on {address}, with its data in {base / 'data'}")
        Cluster(address).create_topics(traffic_topics(), partitions=traffic_topics())
        traffic = stack.enter_context(_traffic(base, address))
        observer.say(f"Traffic: {RATE:,} records a second, one in {1 / GARBAGE:,.0f} of them garbage")
        target = load_target(NAME)
        session = SessionSettings("ottla demo", spark_log(target, base), conf=SHORT_RUN)
        Run(target, RunSettings(address, base), session, observer, seconds, warm_up=True).execute()
        traffic.terminate()
        try:
            page = build_report(NAME, base, address, {})
        except PipelineError as error:
            raise PipelineError("The demo ended before it had a result; run it longer with --seconds.") from error
        page.title = "Ottla at work: activity tracking"
        page.write(base / "report.html")
    return base / "report.html"


def traffic_topics() -> dict[str, int]:
    topics: dict[str, int] = load_part(NAME, "traffic").TOPICS
    return topics


@contextlib.contextmanager
def _broker(base: Path) -> Iterator[str]:
    log = base / "broker.log"
    arguments = ["serve", "--data-dir", str(base / "data"), "--listen", "127.0.0.1:0"]
    with log.open("w") as output, _process(arguments, output) as process:
        deadline = time.monotonic() + _START_SECONDS
        while _READY not in (said := log.read_text()):
            if process.poll() is not None or time.monotonic() > deadline:
                raise PipelineError(
                    f"The broker did not start: {said.strip().splitlines()[-1] if said else 'it printed nothing'}."
                )
            time.sleep(0.05)
        yield said.partition(_READY)[2].split()[0].rstrip(",")


@contextlib.contextmanager
def _traffic(base: Path, address: str) -> Iterator["subprocess.Popen[bytes]"]:
    pace = ["--rate", str(RATE), "--garbage", str(GARBAGE)]
    arguments = ["pipeline", "generate", NAME, *pace, "--bootstrap-server", address]
    with (base / "traffic.log").open("w") as output, _process(arguments, output) as process:
        yield process


@contextlib.contextmanager
def _process(arguments: Sequence[str], output: IO[str]) -> Iterator["subprocess.Popen[bytes]"]:
    """A process in its own session, so that Ctrl-C reaches only the pipeline, which then stops the others in order."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ottla", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
