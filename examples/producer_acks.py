"""The delivery reports and the log when the broker is killed (kill -9) at a critical moment.

python examples/producer_acks.py    always starts its own broker, because it kills the broker

There are two critical moments: when records are on their way to the broker, and when its answer is on the way back.
A proxy that drops bytes on demand reproduces both of them every time.
"""

import contextlib
import enum
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Producer
from playground import client, create_topics, high_watermark, lost, number, read, repeated, text

SETTINGS: dict[str, dict[str, Any]] = {
    "acks=0": {"acks": "0"},
    "acks=1": {"acks": "1"},
    "acks=all": {"acks": "all"},
    "acks=all, idempotent": {"acks": "all", "enable.idempotence": True},
}
BEFORE = [1, 2, 3]
DURING = [4, 5, 6]
COLUMNS = "{:<22}{:<13}{:<12}{:<19}{:<7}{}"


class Crash(enum.Enum):
    """What is lost when the broker is killed."""

    REQUESTS = "killed with records 4 5 6 on their way to it"
    ANSWERS = "killed after it wrote records 4 5 6, with its answers on the way back"


class Sender:
    """A producer with its own topic. It keeps its delivery reports from before and after the crash."""

    def __init__(self, bootstrap_servers: str, topic: str, settings: dict[str, Any]) -> None:
        self.topic = topic
        self.told_before: list[int] = []
        self.told_after: list[int] = []
        self.told = self.told_before
        self.producer = Producer({**client(bootstrap_servers), **settings})

    def send(self, numbers: Sequence[int]) -> None:
        for each in numbers:
            self.producer.produce(self.topic, f"record {each}", on_delivery=self._on_delivery)

    def _on_delivery(self, error: Any, message: Any) -> None:
        if error is None:
            self.told.append(number(message))


class Connection:
    """Forwards bytes between a client and the broker, and drops them when told to."""

    def __init__(self, client: socket.socket, broker: socket.socket) -> None:
        self.loses: Crash | None = None
        self._ends = (client, broker)
        threading.Thread(target=self._carry, args=(Crash.REQUESTS, client, broker), daemon=True).start()
        threading.Thread(target=self._carry, args=(Crash.ANSWERS, broker, client), daemon=True).start()

    def _carry(self, what: Crash, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if self.loses is not what:
                    sink.sendall(data)
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class Network:
    """A proxy with a constant address in front of the changing broker processes."""

    def __init__(self) -> None:
        self.broker = ("127.0.0.1", 0)  # Connections fail until a broker is running.
        self._connections: list[Connection] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            try:
                self._connections.append(Connection(client, socket.create_connection(self.broker)))
            except OSError:
                client.close()

    def lose(self, what: Crash) -> None:
        """Drop bytes on all existing connections from now on. Later connections are not affected."""
        for connection in self._connections:
            connection.loses = what


class Broker:
    """`ottla serve` in a separate process, behind the proxy."""

    def __init__(self, network: Network, data_dir: str) -> None:
        self._network = network
        options = ["--data-dir", data_dir, "--listen", "127.0.0.1:0"]
        advertised = ["--set", f"advertised.listeners=PLAINTEXT://{network.address}"]
        self._command = [sys.executable, "-m", "ottla", "serve", *options, *advertised]
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        ready = next((line for line in self._process.stdout if line.startswith("Ottla is ready: ")), None)
        if ready is None:
            raise SystemExit("the broker did not start")
        self._network.broker = ("127.0.0.1", int(ready.rsplit(":", 1)[1]))

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def play(crash: Crash, network: Network, broker: Broker) -> None:
    topics = [f"{crash.name.lower()}-{position}" for position in range(len(SETTINGS))]
    create_topics(network.address, topics)
    wait_until_written(
        network.address, topics, 0
    )  # Records sent with acks=0 before the leader is ready would be lost too.
    senders = [Sender(network.address, *pair) for pair in zip(topics, SETTINGS.values(), strict=True)]
    for sender in senders:
        sender.send(BEFORE)
        sender.producer.flush()
    wait_until_written(network.address, topics, len(BEFORE))

    network.lose(crash)
    for sender in senders:
        sender.send(DURING)
    for name, sender in zip(SETTINGS, senders, strict=True):
        # With acks=0 a record counts as delivered once it is sent. The other producers wait for answers in vain.
        sender.producer.flush(10 if name == "acks=0" else 0.1)
    if crash is Crash.ANSWERS:
        wait_until_written(network.address, topics, len(BEFORE + DURING))
    broker.kill()
    broker.start()

    print(f"the broker is {crash.value}")
    print(COLUMNS.format("producer", "told before", "told after", "in the log", "lost", "repeated"))
    for name, sender in zip(SETTINGS, senders, strict=True):
        sender.told = sender.told_after
        sender.producer.flush()
        log = read(network.address, sender.topic)
        cells = (sender.told_before, sender.told_after, log, lost(BEFORE + DURING, log), repeated(log))
        print(COLUMNS.format(name, *map(text, cells)))
    print()


def wait_until_written(bootstrap_servers: str, topics: Sequence[str], records: int) -> None:
    """Check the log: with acks=0, and while the proxy drops answers, producers cannot know it."""
    deadline = time.monotonic() + 10
    for topic in topics:
        while high_watermark(bootstrap_servers, topic) < records:
            if time.monotonic() > deadline:
                raise SystemExit(f"{topic} does not have {records} records")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as data_dir:
        network = Network()
        broker = Broker(network, data_dir)
        try:
            for crash in Crash:
                play(crash, network, broker)
        finally:
            broker.kill()
