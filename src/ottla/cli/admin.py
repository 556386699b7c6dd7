"""Admin requests with typed answers, one method each, so that only this module uses confluent-kafka's objects."""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, ElectionType, KafkaException, TopicCollection
from confluent_kafka import KafkaError as ClientError
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from ottla.cli.client import REQUEST_TIMEOUT, Client
from ottla.cli.command_error import CommandError
from ottla.cli.direct_request import delete_offsets, partition_sizes
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.wire import WireError

EARLIEST = OffsetSpec.earliest()
LATEST = OffsetSpec.latest()


@dataclass(frozen=True, slots=True)
class Broker:
    id: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Partition:
    number: int
    leader: Broker | None
    replicas: list[int]
    isr: list[int]

    @property
    def leader_id(self) -> int | None:
        return None if self.leader is None else self.leader.id


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    id: str
    internal: bool
    partitions: list[Partition]

    def topic_partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.name, partition.number) for partition in self.partitions]


@dataclass(frozen=True, slots=True)
class GroupListing:
    name: str
    state: str
    type: str


@dataclass(frozen=True, slots=True)
class Member:
    id: str
    client_id: str
    host: str
    instance_id: str | None
    assignment: list[TopicPartition]


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    state: str
    type: str
    assignor: str
    coordinator: Broker
    members: list[Member]


@dataclass(frozen=True, slots=True)
class Config:
    name: str
    value: str | None
    source: str
    read_only: bool
    sensitive: bool
    synonyms: list[tuple[str, str, str | None]]
    """Source, name and value of every place that sets this, in order of precedence."""


@dataclass(frozen=True, slots=True)
class Replicas:
    """Ids of the brokers that have, or should have, a copy of a partition."""

    leader: int | None
    assigned: list[int]
    in_sync: list[int]


@dataclass(frozen=True, slots=True)
class Cluster:
    id: str
    brokers: list[Broker]
    topics: list[str]
    partitions: dict[TopicPartition, Replicas]
    controller: int | None = None


class Admin:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._admin = client.admin()

    def cluster(self) -> Cluster:
        metadata = self._client.ask(lambda: self._admin.list_topics(timeout=REQUEST_TIMEOUT / 2))
        brokers = [_broker(broker) for broker in metadata.brokers.values()]
        partitions = {
            TopicPartition(name, number): Replicas(
                None if partition.leader < 0 else int(partition.leader), list(partition.replicas), list(partition.isrs)
            )
            for name, topic in sorted(metadata.topics.items())
            for number, partition in sorted(topic.partitions.items())
        }
        brokers.sort(key=lambda broker: broker.id)
        controller = None if metadata.controller_id < 0 else int(metadata.controller_id)
        return Cluster(str(metadata.cluster_id), brokers, sorted(metadata.topics), partitions, controller)

    def elect_leaders(
        self, partitions: Sequence[TopicPartition] | None, unclean: bool
    ) -> dict[TopicPartition, str | None]:
        """Elect the preferred leaders, or any living replicas, of these or all partitions. Returns the name of the
        error for each partition, or None for an elected leader."""
        election = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
        wanted = None if partitions is None else [ClientPartition(*partition) for partition in partitions]
        # confluent-kafka 2.16 raises SystemError if elect_leaders gets a timeout.
        answer = self._client.ask(lambda: self._admin.elect_leaders(election, wanted).result())
        return {TopicPartition(entry.topic, entry.partition): _error_name(error) for entry, error in answer.items()}

    def describe_topics(self, names: Sequence[str]) -> list[Topic]:
        """Describe topics in the order of `names`. A topic that does not exist is a CommandError."""
        if not names:
            return []
        if "" in names:
            raise self._client.failure(ClientError(ClientError.TOPIC_EXCEPTION))
        futures = self._admin.describe_topics(TopicCollection(list(names)), request_timeout=REQUEST_TIMEOUT)
        return [_topic(self._result(futures[name], name)) for name in names]

    def create_topic(
        self, name: str, partitions: int | None, replication_factor: int | None, config: Mapping[str, str]
    ) -> None:
        """The broker chooses a number that is None (KIP-464)."""
        topic = NewTopic(
            name,
            num_partitions=-1 if partitions is None else partitions,
            replication_factor=-1 if replication_factor is None else replication_factor,
            config=dict(config),
        )
        self._one(self._admin.create_topics([topic], request_timeout=REQUEST_TIMEOUT), name)

    def delete_topic(self, name: str) -> None:
        self._one(self._admin.delete_topics([name], request_timeout=REQUEST_TIMEOUT), name)

    def create_partitions(self, name: str, total: int) -> None:
        futures = self._admin.create_partitions([NewPartitions(name, total)], request_timeout=REQUEST_TIMEOUT)
        self._one(futures, name)

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete all records of one topic before these offsets; returns the new start offset of each partition."""
        request = [
            ClientPartition(partition.topic, partition.partition, offset) for partition, offset in before.items()
        ]

        def delete() -> dict[TopicPartition, int]:
            futures = self._admin.delete_records(request, request_timeout=REQUEST_TIMEOUT)
            return {
                TopicPartition(entry.topic, entry.partition): int(future.result().low_watermark)
                for entry, future in futures.items()
            }

        return self._client.ask(delete, next(iter(before)).topic)

    def offsets(self, partitions: Iterable[TopicPartition], spec: Any) -> dict[TopicPartition, int]:
        """The offset of each partition for a specification, without the partitions that have no leader."""
        return self.start_offsets(partitions, spec)()

    def start_offsets(self, partitions: Iterable[TopicPartition], spec: Any) -> Callable[[], dict[TopicPartition, int]]:
        """Send the request now; call the result to wait for the answer. Several requests can thus be in flight."""
        request = {ClientPartition(*partition): spec for partition in partitions}
        if not request:
            return dict
        futures = self._admin.list_offsets(request, request_timeout=REQUEST_TIMEOUT)
        return lambda: self._collect_offsets(futures)

    def _collect_offsets(self, futures: Mapping[Any, Any]) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for partition, future in futures.items():
            try:
                offset = int(future.result().offset)
            except KafkaException as exception:
                if exception.args[0].name() not in ("LEADER_NOT_AVAILABLE", "_NOENT"):
                    raise self._client.failure(exception.args[0], partition.topic) from exception
            else:
                found[TopicPartition(partition.topic, partition.partition)] = offset
        return found

    def sizes(self, topics: Sequence[Topic]) -> dict[TopicPartition, int]:
        """Bytes of each partition on its leader's disk, without the partitions whose leader did not answer.

        confluent-kafka does not offer this request. Ours uses plaintext only. A missing answer is no error, because the
        rest of a description is useful without it.
        """
        led: dict[Broker, dict[str, list[int]]] = {}
        for topic in topics:
            for partition in topic.partitions:
                if partition.leader is not None:
                    led.setdefault(partition.leader, {}).setdefault(topic.name, []).append(partition.number)
        found: dict[TopicPartition, int] = {}
        if self._client.plaintext:
            for leader, partitions in led.items():
                with contextlib.suppress(OSError, WireError):
                    found.update(partition_sizes(leader.host, leader.port, partitions))
        return found

    def list_groups(self) -> list[GroupListing]:
        listing = self._client.ask(lambda: self._admin.list_consumer_groups(request_timeout=REQUEST_TIMEOUT).result())
        if listing.errors:
            raise self._client.failure(listing.errors[0].args[0])
        groups = [GroupListing(str(group.group_id), _title(group.state), _title(group.type)) for group in listing.valid]
        return sorted(groups, key=lambda group: group.name)

    def describe_group(self, name: str) -> Group:
        """The broker describes a group that does not exist as Dead."""

        def describe() -> Any:
            futures = self._admin.describe_consumer_groups([name], request_timeout=REQUEST_TIMEOUT)
            return futures[name].result()

        return _group(self._client.ask(describe, name))

    def committed(self, group: str) -> dict[TopicPartition, int]:
        def fetch() -> Any:
            request = [ConsumerGroupTopicPartitions(group)]
            futures = self._admin.list_consumer_group_offsets(request, request_timeout=REQUEST_TIMEOUT)
            return futures[group].result()

        answer = self._client.ask(fetch, group)
        return {
            TopicPartition(entry.topic, entry.partition): int(entry.offset)
            for entry in answer.topic_partitions
            if entry.error is None and entry.offset >= 0
        }

    def alter_committed(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        entries = [
            ClientPartition(partition.topic, partition.partition, offset) for partition, offset in offsets.items()
        ]

        def alter() -> Any:
            request = [ConsumerGroupTopicPartitions(group, entries)]
            futures = self._admin.alter_consumer_group_offsets(request, request_timeout=REQUEST_TIMEOUT)
            return futures[group].result()

        for entry in self._client.ask(alter, group).topic_partitions:
            if entry.error is not None:
                raise self._client.failure(entry.error, group)

    def delete_committed(self, group: Group, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, ErrorCode]:
        """Delete a group's offsets; returns an error for each that was not deleted. confluent-kafka cannot do this."""
        if not self._client.plaintext:
            raise CommandError("Offsets can only be deleted over a plaintext listener; leave out -X security.protocol.")
        coordinator = group.coordinator
        try:
            error, refused = delete_offsets(coordinator.host, coordinator.port, group.name, partitions)
        except (OSError, WireError) as reason:
            raise CommandError(
                f"Coordinator {coordinator.host}:{coordinator.port} did not answer: {reason}."
            ) from reason
        if error is not ErrorCode.NONE:
            raise self._client.failure(ClientError(int(error)), group.name)
        return refused

    def delete_group(self, name: str) -> None:
        def delete() -> Any:
            futures = self._admin.delete_consumer_groups([name], request_timeout=REQUEST_TIMEOUT)
            return futures[name].result()

        self._client.ask(delete, name)

    def configs(self, kind: str, name: str) -> list[Config]:
        return self.start_configs(kind, [name])()[name]

    def start_configs(self, kind: str, names: Sequence[str]) -> Callable[[], dict[str, list[Config]]]:
        """Send the request now; call the result for the settings by name of the topic, broker or group."""
        resources = [ConfigResource(ResourceType[kind.upper()], name) for name in names]
        if not resources:
            return dict
        futures = self._admin.describe_configs(resources, request_timeout=REQUEST_TIMEOUT)

        def collect() -> dict[str, list[Config]]:
            answers = {str(resource.name): self._result(future, resource.name) for resource, future in futures.items()}
            return {
                name: sorted((_config(entry) for entry in entries.values()), key=lambda config: config.name)
                for name, entries in answers.items()
            }

        return collect

    def alter_configs(self, kind: str, name: str, add: Mapping[str, str], delete: Iterable[str]) -> None:
        changes = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in add.items()
        ] + [ConfigEntry(key, None, incremental_operation=AlterConfigOpType.DELETE) for key in delete]
        resource = ConfigResource(ResourceType[kind.upper()], name, incremental_configs=changes)
        self._one(self._admin.incremental_alter_configs([resource], request_timeout=REQUEST_TIMEOUT), name)

    def _one(self, futures: Mapping[Any, Any], subject: str) -> Any:
        (future,) = futures.values()
        return self._result(future, subject)

    def _result(self, future: Any, subject: str) -> Any:
        """Wait for the answer, or for the timeout of the request."""
        try:
            return future.result()
        except KafkaException as exception:
            raise self._client.failure(exception.args[0], subject) from exception


def _error_name(error: Any) -> str | None:
    reason = error.args[0] if isinstance(error, KafkaException) else error
    return None if reason is None else str(reason.name())


def _broker(node: Any) -> Broker:
    return Broker(int(node.id), str(node.host), int(node.port))


def _topic(description: Any) -> Topic:
    partitions = [
        Partition(
            int(partition.id),
            None if partition.leader is None or partition.leader.id < 0 else _broker(partition.leader),
            [int(node.id) for node in partition.replicas],
            [int(node.id) for node in partition.isr],
        )
        for partition in description.partitions
    ]
    # librdkafka encodes ids with the standard base64 alphabet, Kafka's tools with the one for URLs.
    topic_id = str(description.topic_id).translate(str.maketrans("+/", "-_"))
    return Topic(str(description.name), topic_id, bool(description.is_internal), partitions)


def _group(description: Any) -> Group:
    members = [
        Member(
            str(member.member_id),
            str(member.client_id),
            str(member.host),
            member.group_instance_id or None,
            [TopicPartition(entry.topic, entry.partition) for entry in member.assignment.topic_partitions],
        )
        for member in description.members
    ]
    return Group(
        str(description.group_id),
        _title(description.state),
        _title(description.type),
        str(description.partition_assignor),
        _broker(description.coordinator),
        members,
    )


def _config(entry: Any) -> Config:
    synonyms = [(_source_name(synonym.source), str(synonym.name), synonym.value) for synonym in entry.synonyms.values()]
    return Config(
        str(entry.name),
        entry.value,
        _source_name(entry.source),
        bool(entry.is_read_only),
        bool(entry.is_sensitive),
        synonyms,
    )


def _source_name(number: int) -> str:
    """The protocol's name of a source. A newer broker may send a source that the client does not know."""
    known = {source.value: str(source.name) for source in ConfigSource}
    return known.get(number, "UNKNOWN_CONFIG")


def _title(state: Any) -> str:
    """`PREPARING_REBALANCING` as Kafka's tools write it: `PreparingRebalance`."""
    return str(state.name).title().replace("_", "").replace("Rebalancing", "Rebalance")
