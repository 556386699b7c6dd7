"""confluent-kafka's clients with short timeouts and no log output, and sentences for their errors."""

import socket
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import typer
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from ottla.cli.command_error import CommandError
from ottla.cli.options import key_values

CONNECT_TIMEOUT = 3.0
REQUEST_TIMEOUT = 10.0
MOVING_SECONDS = 5.0

T = TypeVar("T")

SILENCE = frozenset({"_TRANSPORT", "_TIMED_OUT", "_TIMED_OUT_QUEUE", "_ALL_BROKERS_DOWN", "_RESOLVE", "_MSG_TIMED_OUT"})
MOVING = frozenset(
    {
        "NOT_COORDINATOR",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "NOT_LEADER_FOR_PARTITION",
        "LEADER_NOT_AVAILABLE",
    }
)
"""A coordinator or leader is moving to another broker or is loading. Requests are repeated for a while."""


UNKNOWN_TOPIC = "Topic '{subject}' does not exist; see `ottla topics list`, or create it with `ottla topics create`."
REFUSED = "The broker denied access to '{subject}': {reason}; check the credentials given with -X."
SENTENCES = {
    "UNKNOWN_TOPIC_OR_PART": UNKNOWN_TOPIC,
    "_UNKNOWN_TOPIC": UNKNOWN_TOPIC,
    "_UNKNOWN_PARTITION": "Topic '{subject}' has no such partition; see `ottla topics describe {subject}`.",
    "TOPIC_ALREADY_EXISTS": "Topic '{subject}' already exists; choose another name or pass --if-not-exists.",
    "TOPIC_EXCEPTION": "'{subject}' is not a valid topic name; use at most 249 letters, digits, '.', '_' and '-'.",
    "INVALID_GROUP_ID": "'{subject}' is not a valid group name; it must not be empty.",
    "GROUP_ID_NOT_FOUND": "Consumer group '{subject}' does not exist; see `ottla groups list`.",
    "NON_EMPTY_GROUP": "Consumer group '{subject}' still has active members; stop its consumers first.",
    "UNKNOWN_MEMBER_ID": "Consumer group '{subject}' still has active members; stop its consumers first.",
    "OFFSET_OUT_OF_RANGE": "The offset is out of range in '{subject}'; see `ottla topics describe {subject}`.",
    "MSG_SIZE_TOO_LARGE": (
        "A record is larger than max.message.bytes of '{subject}'; raise this setting or send smaller records."
    ),
    "TOPIC_AUTHORIZATION_FAILED": REFUSED,
    "GROUP_AUTHORIZATION_FAILED": REFUSED,
    "CLUSTER_AUTHORIZATION_FAILED": REFUSED,
}


class SilentBrokerError(CommandError):
    """The address accepts connections, but requests get no response."""


class Client:
    """The cluster that the options of a command name."""

    def __init__(self, bootstrap_server: str, client_settings: list[str] | None) -> None:
        self.bootstrap_server = bootstrap_server
        self._settings = key_values(client_settings, "-X")
        self.outage = False
        """Set when all connections are lost. The code that prints the message clears it."""
        self._refusal = ""

    @property
    def plaintext(self) -> bool:
        """Whether the client uses neither TLS nor SASL."""
        return self._settings.get("security.protocol", "plaintext").lower() == "plaintext"

    def sets(self, key: str) -> bool:
        """Whether this client setting was given with -X."""
        return key in self._settings

    def admin(self) -> Any:
        return self._make(AdminClient, {})

    def producer(self, defaults: Mapping[str, Any]) -> Any:
        return self._make(Producer, defaults)

    def consumer(self, defaults: Mapping[str, Any]) -> Any:
        return self._make(Consumer, defaults)

    def ask(self, call: Callable[[], T], subject: str = "") -> T:
        """Make a request, repeat it while a coordinator or leader moves, and turn an error into a CommandError."""
        deadline = time.monotonic() + MOVING_SECONDS
        while True:
            try:
                return call()
            except KafkaException as exception:
                error = exception.args[0]
                if error.name() not in MOVING or time.monotonic() > deadline:
                    raise self.failure(error, subject) from exception
            time.sleep(0.05)

    def failure(self, error: Any, subject: str = "") -> CommandError:
        """The sentence for an error of the client or the broker; `subject` names the topic or group."""
        name = str(error.name())
        reason = str(error.str()).strip().rstrip(".:")
        if name in SILENCE:
            return self._silence()
        if name in SENTENCES:
            return CommandError(SENTENCES[name].format(subject=subject, reason=reason))
        about = f" for '{subject}'" if subject else ""
        return CommandError(f"The broker rejected the request{about}: {reason or name}.")

    def _silence(self) -> CommandError:
        if self._refusal:
            return CommandError(f"The broker at {self.bootstrap_server} rejected the connection: {self._refusal}.")
        try:
            dial(self.bootstrap_server)
        except CommandError as gone:
            return gone
        return SilentBrokerError(
            f"The broker at {self.bootstrap_server} accepts connections but does not answer; "
            "run `ottla doctor` to see what it advertises."
        )

    def _make(self, kind: Callable[[dict[str, Any]], Any], defaults: Mapping[str, Any]) -> Any:
        dial(self.bootstrap_server)
        settings: dict[str, Any] = {
            "client.id": "ottla-cli",
            "bootstrap.servers": self.bootstrap_server,
            "error_cb": self._remember,
            # librdkafka waits half of this before it looks for a connection; the default would add 50 ms to a command.
            "reconnect.backoff.ms": 10,
            **defaults,
            **self._settings,
        }
        if "debug" not in settings:
            settings.setdefault("log_level", 0)
        try:
            return kind(settings)
        except KafkaException as exception:
            raise typer.BadParameter(str(exception.args[0].str()), param_hint="-X") from exception

    def _remember(self, error: Any) -> None:
        """Keep the reason why a connection was rejected. The request itself only reports a timeout."""
        if error.name() in ("_AUTHENTICATION", "_SSL"):
            self._refusal = str(error.str()).strip().rstrip(".")
        elif error.name() == "_ALL_BROKERS_DOWN":
            self.outage = True


def dial(bootstrap_server: str) -> None:
    """Fail at once if nothing listens at the addresses. librdkafka would try until the request times out."""
    addresses = [parse_address(text) for text in bootstrap_server.split(",")]
    for address in addresses:
        try:
            socket.create_connection(address, CONNECT_TIMEOUT / len(addresses)).close()
        except OSError:
            continue
        return
    raise CommandError(
        f"No broker answered at {bootstrap_server}; start one with `ottla serve` or pass --bootstrap-server."
    )


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of one bootstrap address, in the forms that Kafka's clients accept."""
    location = text.strip().rpartition("://")[2]
    host, colon, port = location.rpartition(":")
    if not colon or location.endswith("]"):
        host, port = location, "9092"
    if not host or not port.isdecimal() or int(port) > 65535:
        raise typer.BadParameter(f"{text!r} is not of the form HOST:PORT", param_hint="--bootstrap-server")
    return host.strip("[]"), int(port)
