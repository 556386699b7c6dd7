"""`ottla produce`: lines in, records out."""

import enum
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer
from confluent_kafka import KafkaException

from ottla.cli.client import Client
from ottla.cli.command_error import CommandError
from ottla.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    BootstrapServer,
    ClientSettings,
    Json,
    key_values,
    properties,
    property_option,
    single,
)
from ottla.cli.output import note, print_json, say
from ottla.cli.record_text import Headers, NewRecord, parse_json_lines, parse_lines

DELIVERY_TIMEOUT_MS = 10_000
READER_PROPERTIES = ("parse.key", "key.separator", "null.marker")

app = single()


class Acks(enum.StrEnum):
    NONE = "0"
    LEADER = "1"
    ALL = "all"


class Codec(enum.StrEnum):
    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


@app.command()
def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic to write to.", show_default=False)],
    file: Annotated[
        Path | None,
        typer.Option(
            "--file",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="Read records from this file, not standard input.",
        ),
    ] = None,
    from_json: Annotated[
        bool, typer.Option("--from-json", help='Each line is an object: {"key", "value", "headers", "partition"}.')
    ] = False,
    key_separator: Annotated[
        str | None,
        typer.Option("--key-separator", metavar="TEXT", help="Split each line into key and value at this text."),
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option("--partition", metavar="N", min=0, help="Write to this partition; chosen by key if left out."),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="KEY=VALUE", help="Header for every record; may be repeated."),
    ] = None,
    acks: Annotated[Acks, typer.Option("--acks", help="How many replicas must have a record.")] = Acks.ALL,
    compression_codec: Annotated[
        Codec, typer.Option("--compression-codec", help="How batches are compressed.")
    ] = Codec.NONE,
    property_: Annotated[list[str] | None, property_option("input", READER_PROPERTIES)] = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    client_settings: ClientSettings = None,
    json: Json = False,
) -> None:
    """Write lines from standard input or a file to a topic, one record per line.

    \b
    Examples:
      echo hello | ottla produce clicks
      ottla produce users --key-separator : --file users.txt
      ottla consume clicks --from-beginning --exit-at-end --json | ottla produce copy --from-json
    """
    parse = parse_json_lines if from_json else _line_parser(key_separator, properties(property_, READER_PROPERTIES))
    headers: Headers = [(name, value.encode()) for name, value in key_values(header, "--header").items()]
    client = Client(bootstrap_server, client_settings)
    sender = Sender(client, topic, {"acks": acks.value, "compression.type": compression_codec.value})
    with _input(file) as lines, sender.finishing():
        for record in parse(lines):
            sender.send(record, headers, partition)
    _report(topic, sender.delivered, json)


def _line_parser(
    key_separator: str | None, reader: Mapping[str, str]
) -> Callable[[Iterable[bytes]], Iterator[NewRecord]]:
    """How lines become records, from our option or from Kafka's names for the same."""
    if key_separator is None and (reader.get("parse.key") == "true" or "key.separator" in reader):
        key_separator = reader.get("key.separator", "\t")
    if key_separator == "":
        raise typer.BadParameter("it must not be empty", param_hint="--key-separator")
    separator = None if key_separator is None else key_separator.encode()
    marker = reader["null.marker"].encode() if "null.marker" in reader else None
    return lambda lines: parse_lines(lines, separator, marker)


class Sender:
    """Sends records and keeps the count of those the broker has confirmed; the first refusal ends it."""

    def __init__(self, client: Client, topic: str, settings: dict[str, Any]) -> None:
        self.delivered = 0
        self._client = client
        self._topic = topic
        self._first_error: Any = None
        defaults = {
            "message.timeout.ms": DELIVERY_TIMEOUT_MS,
            "topic.metadata.propagation.max.ms": DELIVERY_TIMEOUT_MS // 2,
        }
        self._producer = client.producer({**defaults, **settings})

    def send(self, record: NewRecord, headers: Headers, partition: int | None) -> None:
        target = record.partition if partition is None else partition
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    value=record.value,
                    key=record.key,
                    headers=[*headers, *record.headers],
                    partition=-1 if target is None else target,
                    on_delivery=self._on_delivery,
                )
                break
            except BufferError:
                self._producer.poll(0.1)
            except KafkaException as exception:
                raise self._failure(exception.args[0]) from exception
        self._producer.poll(0)
        self._check()

    @contextmanager
    def finishing(self) -> Iterator[None]:
        """However the sending ends, wait for what is on its way, and fail if any of it failed."""
        try:
            yield
        finally:
            while self._producer.flush(0.5):
                pass
        self._check()

    def _on_delivery(self, error: Any, _message: Any) -> None:
        if error is None:
            self.delivered += 1
        elif self._first_error is None:
            self._first_error = error

    def _check(self) -> None:
        if self._first_error is not None:
            self._producer.purge()
            raise self._failure(self._first_error)

    def _failure(self, error: Any) -> CommandError:
        reason = self._client.failure(error, self._topic)
        return CommandError(f"{reason} {self.delivered} records were delivered.") if self.delivered else reason


@contextmanager
def _input(file: Path | None) -> Iterator[BinaryIO]:
    if file is not None:
        with file.open("rb") as stream:
            yield stream
        return
    if sys.stdin.isatty():
        note("Type one record per line; Ctrl-D ends.")
    yield sys.stdin.buffer


def _report(topic: str, delivered: int, json: bool) -> None:
    if json:
        print_json({"topic": topic, "delivered": delivered})
    else:
        say(f"Delivered {delivered} record{'' if delivered == 1 else 's'} to {topic}.")
