"""`ottla produce`: sends lines as records."""

import enum
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
    Json,
    TopicCommand,
    client_settings_option,
    key_values,
    properties,
    property_option,
    single,
)
from ottla.cli.output import count, note, print_json, say
from ottla.cli.progress import Progress
from ottla.cli.record_text import NewRecord, parse_json_lines, parse_lines

DELIVERY_TIMEOUT_MS = 10_000
READER_PROPERTIES = ("parse.key", "key.separator", "null.marker")
STANDARD_INPUT = Path("-")
INTERRUPTED = 130

Parser = Callable[[Iterable[bytes], str], Iterator[NewRecord]]
"""From lines, and a text that names their source in errors, to records."""

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


class Partitioner(enum.StrEnum):
    """librdkafka's names. Those that end in `_random` spread records without a key over all partitions."""

    MURMUR2_RANDOM = "murmur2_random"
    MURMUR2 = "murmur2"
    CONSISTENT_RANDOM = "consistent_random"
    CONSISTENT = "consistent"
    FNV1A_RANDOM = "fnv1a_random"
    FNV1A = "fnv1a"
    RANDOM = "random"


@app.command(cls=TopicCommand)
def produce(
    topic: Annotated[
        str,
        typer.Argument(metavar="TOPIC", help="Topic to write to; --topic TOPIC is accepted too.", show_default=False),
    ],
    file: Annotated[
        list[Path] | None,
        typer.Option(
            "--file",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            allow_dash=True,
            help="Read records from this file; may be repeated, - is standard input.",
        ),
    ] = None,
    from_json: Annotated[
        bool,
        typer.Option(
            "--from-json",
            help='Each line is an object with "value" and optionally "key", "headers", "partition", "timestamp".',
        ),
    ] = False,
    key: Annotated[
        str | None, typer.Option("--key", "-k", metavar="KEY", help="Key of every record that brings none.")
    ] = None,
    key_separator: Annotated[
        str | None,
        typer.Option("--key-separator", "-K", metavar="TEXT", help="Split each line into key and value at this text."),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="KEY=VALUE", help="Header for every record; may be repeated."),
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option("--partition", "-p", metavar="N", min=0, help="Write to this partition; default: by the key."),
    ] = None,
    partitioner: Annotated[
        Partitioner,
        typer.Option(
            "--partitioner", help="How a key chooses its partition; murmur2_random chooses as Kafka's Java client does."
        ),
    ] = Partitioner.MURMUR2_RANDOM,
    acks: Annotated[
        Acks,
        typer.Option("--acks", "--request-required-acks", help="How many replicas must store a record."),
    ] = Acks.ALL,
    compression_codec: Annotated[
        Codec, typer.Option("--compression-codec", "-z", help="Compression of the batches.")
    ] = Codec.NONE,
    property_: Annotated[list[str] | None, property_option("input", READER_PROPERTIES, "--reader-property")] = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    client_settings: Annotated[
        list[str] | None, client_settings_option("--producer-property", "--command-property")
    ] = None,
    json: Json = False,
) -> None:
    """Write lines from standard input or files to a topic, one record per line.

    \b
    Examples:
      echo hello | ottla produce clicks
      echo hello | ottla produce clicks -k user-1 -H source=shell
      ottla produce users --key-separator : --file users.txt --file more.txt
      ottla consume clicks --from-beginning -e --json | ottla produce copy --from-json
    """
    parse = (
        parse_json_lines if from_json else _line_parser(key, key_separator, properties(property_, READER_PROPERTIES))
    )
    defaults = NewRecord(
        None if key is None else key.encode(),
        None,
        [(name, value.encode()) for name, value in key_values(header, "--header").items()],
        partition,
    )
    files = file or [STANDARD_INPUT]
    client = Client(bootstrap_server, client_settings)
    settings = {
        "acks": acks.value,
        "compression.type": compression_codec.value,
        "partitioner": partitioner.value,
    }
    typed = STANDARD_INPUT in files and sys.stdin.isatty()
    sender = Sender(client, topic, settings, Progress(shown=not typed))
    try:
        with sender.finishing():
            _send_all(sender, files, parse, defaults)
    except KeyboardInterrupt:
        _report(topic, sender, json, interrupted=True)
        raise typer.Exit(INTERRUPTED) from None
    _report(topic, sender, json, interrupted=False)


def _send_all(sender: "Sender", files: Sequence[Path], parse: Parser, defaults: NewRecord) -> None:
    for path in files:
        source = "" if len(files) == 1 else f" of {path}"
        with _input(path) as lines:
            for record in parse(lines, source):
                sender.send(record, defaults)


def _line_parser(key: str | None, key_separator: str | None, reader: Mapping[str, str]) -> Parser:
    """How lines become records, by our option or by Kafka's names for the same."""
    if key_separator is None and (reader.get("parse.key") == "true" or "key.separator" in reader):
        key_separator = reader.get("key.separator", "\t")
    if key_separator == "":
        raise typer.BadParameter("it must not be empty", param_hint="--key-separator")
    if key is not None and key_separator is not None:
        raise typer.BadParameter("--key and --key-separator both give the key; leave one out")
    separator = None if key_separator is None else key_separator.encode()
    marker = reader["null.marker"].encode() if "null.marker" in reader else None
    return lambda lines, source: parse_lines(lines, separator, marker, source)


class Sender:
    """Sends records and counts those that the broker acknowledged. The first error ends the command."""

    def __init__(self, client: Client, topic: str, settings: dict[str, Any], progress: Progress) -> None:
        self.delivered = 0
        self.progress = progress
        self._client = client
        self._topic = topic
        self._first_error: Any = None
        defaults = {
            "message.timeout.ms": DELIVERY_TIMEOUT_MS,
            "topic.metadata.propagation.max.ms": DELIVERY_TIMEOUT_MS // 2,
        }
        self._producer = client.producer({**defaults, **settings})

    def send(self, record: NewRecord, defaults: NewRecord) -> None:
        """`defaults`: the key for a record without one, headers to add, and a partition that overrides the record's."""
        key = defaults.key if record.key is None else record.key
        target = record.partition if defaults.partition is None else defaults.partition
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    value=record.value,
                    key=key,
                    headers=[*defaults.headers, *record.headers],
                    partition=-1 if target is None else target,
                    timestamp=record.timestamp or 0,  # librdkafka takes 0 for the current time.
                    on_delivery=self._on_delivery,
                )
                break
            except BufferError:
                self._producer.poll(0.1)
                self.progress.refresh()
            except KafkaException as exception:
                raise self._failure(exception.args[0]) from exception
        self.progress.add(len(key or b"") + len(record.value or b""))
        self._producer.poll(0)
        self._check()

    @contextmanager
    def finishing(self) -> Iterator[None]:
        """Wait for the records in flight, also after an error or Ctrl-C, and raise if one of them failed."""
        try:
            yield
        finally:
            while self._producer.flush(0.5):
                self.progress.refresh()
            self.progress.clear()
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
        return (
            CommandError(f"{reason} Delivered before: {count(self.delivered, 'record')}.") if self.delivered else reason
        )


@contextmanager
def _input(path: Path) -> Iterator[BinaryIO]:
    if path != STANDARD_INPUT:
        with path.open("rb") as stream:
            yield stream
        return
    if sys.stdin.isatty():
        note("Type one record per line; Ctrl-D ends.")
    yield sys.stdin.buffer


def _report(topic: str, sender: Sender, json: bool, *, interrupted: bool) -> None:
    if json:
        print_json({"topic": topic, "delivered": sender.delivered})
        return
    rate = f" ({sender.progress.rate()})" if sys.stderr.isatty() and sender.progress.has_rate else ""
    records = count(sender.delivered, "record")
    say(f"{'Interrupted: delivered' if interrupted else 'Delivered'} {records} to {topic}{rate}.")
