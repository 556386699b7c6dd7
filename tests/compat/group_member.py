"""A group member in a process of its own, so that a test can kill it without a goodbye to the broker."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer


@contextmanager
def running_member(bootstrap: str, topic: str, group: str, **config: Any) -> Iterator[subprocess.Popen[str]]:
    """The process prints a JSON list of its partitions after every change; leaving the context kills it."""
    settings = {"bootstrap.servers": bootstrap, "group.id": group, **config}
    command = [sys.executable, str(Path(__file__)), topic, json.dumps(settings)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def partitions_of(process: subprocess.Popen[str]) -> list[int]:
    """The next assignment the member reports."""
    assert process.stdout is not None
    partitions: list[int] = json.loads(process.stdout.readline())
    return partitions


def main(topic: str, settings: dict[str, Any]) -> None:
    consumer = Consumer(settings)

    def report(_: Any, partitions: list[Any]) -> None:
        print(json.dumps([partition.partition for partition in partitions]), flush=True)

    consumer.subscribe([topic], on_assign=report)
    while True:
        consumer.poll(0.1)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
