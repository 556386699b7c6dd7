"""Requests that a pipeline sends to the cluster before Spark starts, so that common mistakes show within a second."""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from ottla.client.client import Client, ClientSettings, parse_bootstrap
from ottla.client.failures import ClientError
from ottla.client.offsets import list_offsets
from ottla.errors import ErrorCode, KafkaError
from ottla.model import LATEST_TIMESTAMP, TopicPartition
from ottla.pipeline.failures import PipelineError

_SHORT_TIMEOUTS = ClientSettings(
    client_id="ottla-pipeline", connect_timeout=3.0, request_timeout=10.0, retry_timeout=2.0, retry_backoff=0.05
)
_BROKER_DEFAULT = -1

T = TypeVar("T")


class Cluster:
    """Short requests, each on its own connection. Raises PipelineError."""

    def __init__(self, bootstrap_server: str) -> None:
        self.bootstrap_server = bootstrap_server

    def require_topics(self, names: Iterable[str]) -> None:
        missing = self._missing(names)
        if missing:
            raise PipelineError(
                f"Topic {missing[0]} does not exist; see `ottla topics list`, or create it with `ottla topics create`."
            )

    def create_topics(self, names: Iterable[str], partitions: Mapping[str, int] | None = None) -> list[str]:
        """Create the missing topics and return their names. Without `partitions` the broker's default applies."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient, NewTopic

        missing = self._missing(names)
        if not missing:
            return []
        admin = AdminClient({"bootstrap.servers": self.bootstrap_server, "log_level": 0})
        wanted = [NewTopic(each, num_partitions=(partitions or {}).get(each, _BROKER_DEFAULT)) for each in missing]
        for name, future in admin.create_topics(wanted, request_timeout=10).items():
            try:
                future.result()
            except KafkaException as error:
                if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
                    raise PipelineError(f"Topic {name} cannot be created: {error.args[0].str()}.") from error
        return missing

    def existing_topics(self, names: Iterable[str]) -> list[str]:
        wanted = list(names)
        missing = self._missing(wanted)
        return [name for name in wanted if name not in missing]

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        wanted = dict.fromkeys(partitions, LATEST_TIMESTAMP)

        async def ask(client: Client) -> dict[TopicPartition, int]:
            return {each: found.offset for each, found in (await list_offsets(client, wanted)).items()}

        return self._ask(ask) if wanted else {}

    def topics(self) -> list[str]:
        """All topics except internal ones."""

        async def ask(client: Client) -> list[str]:
            metadata = await client.metadata(None)
            return sorted(name for name, topic in metadata.topics.items() if not topic.internal)

        found: list[str] = self._ask(ask)
        return found

    def _missing(self, names: Iterable[str]) -> list[str]:
        wanted = list(dict.fromkeys(names))

        async def ask(client: Client) -> list[str]:
            metadata = await client.metadata(wanted)
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return [name for name in wanted if metadata.errors.get(name) == unknown]

        return self._ask(ask) if wanted else []

    def _ask(self, question: Any) -> Any:
        try:
            bootstrap = parse_bootstrap(self.bootstrap_server)
        except ValueError as error:
            raise PipelineError(f"{error}.") from None

        async def ask() -> Any:
            async with Client(bootstrap, _SHORT_TIMEOUTS) as client:
                return await question(client)

        return self._run(ask())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return asyncio.run(work)
        except (ClientError, OSError) as error:
            raise PipelineError(
                f"No broker answered at {self.bootstrap_server}; "
                "start one with `ottla serve` or pass --bootstrap-server."
            ) from error
        except KafkaError as error:
            raise PipelineError(f"The broker returned an error: {error}.") from error
