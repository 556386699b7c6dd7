"""The description of a topic: as a table, as Kafka's own text, and as JSON."""

from dataclasses import dataclass
from typing import Any

import typer

from ottla.cli.admin import EARLIEST, LATEST, Admin, Partition, Topic
from ottla.cli.output import count, human_bytes, note, print_table, styled
from ottla.model import TopicPartition


@dataclass(frozen=True, slots=True)
class TopicDescription:
    topic: Topic
    overrides: dict[str, str | None]
    earliest: dict[TopicPartition, int]
    latest: dict[TopicPartition, int]
    sizes: dict[TopicPartition, int]

    def document(self) -> dict[str, Any]:
        return {
            "topic": self.topic.name,
            "topic_id": self.topic.id,
            "internal": self.topic.internal,
            "configs": self.overrides,
            "partitions": [
                {
                    "partition": partition.number,
                    "leader": partition.leader_id,
                    "replicas": partition.replicas,
                    "isr": partition.isr,
                    "earliest": self.earliest.get(self._key(partition)),
                    "latest": self.latest.get(self._key(partition)),
                    "size": self.sizes.get(self._key(partition)),
                }
                for partition in self.topic.partitions
            ],
        }

    def print_as_kafka(self) -> None:
        """The lines of Kafka's `kafka-topics.sh --describe`, with offsets and size at the end of each."""
        print(self._heading("\t"))
        for partition in self.topic.partitions:
            fields = {
                "Topic": self.topic.name,
                "Partition": partition.number,
                "Leader": "none" if partition.leader is None else partition.leader.id,
                "Replicas": _joined(partition.replicas),
                "Isr": _joined(partition.isr),
                "Earliest": self.earliest.get(self._key(partition), "none"),
                "Latest": self.latest.get(self._key(partition), "none"),
                "Size": self.sizes.get(self._key(partition), "none"),
            }
            print("", *(f"{name}: {value}" for name, value in fields.items()), sep="\t")

    def print_for_person(self) -> None:
        print(styled(self._summary(), typer.colors.CYAN))
        for name, value in self.overrides.items():
            print(f"  {name}={value}")
        rows = [
            (
                partition.number,
                partition.leader_id,
                _joined(partition.replicas),
                _joined(partition.isr),
                self.earliest.get(self._key(partition)),
                self.latest.get(self._key(partition)),
                self._records(partition),
                _size(self.sizes.get(self._key(partition))),
            )
            for partition in self.topic.partitions
        ]
        print_table(["PARTITION", "LEADER", "REPLICAS", "ISR", "EARLIEST", "LATEST", "RECORDS", "SIZE"], rows)
        if self.without_leader:
            note(f"{count(self.without_leader, 'partition')} of {self.topic.name} without a leader.")
        if self.under_replicated:
            note(f"{count(self.under_replicated, 'partition')} of {self.topic.name} under-replicated.")

    @property
    def records(self) -> int:
        """Offsets between the oldest record and the end. Compaction and transactions leave offsets without a record."""
        return sum(self._records(partition) or 0 for partition in self.topic.partitions)

    @property
    def end(self) -> int:
        """Sum of the end offsets."""
        return sum(self.latest.get(self._key(partition), 0) for partition in self.topic.partitions)

    @property
    def size(self) -> int | None:
        """Bytes on the disks of the leaders, or None if no leader tells."""
        known = [self.sizes[key] for key in self.topic.topic_partitions() if key in self.sizes]
        return sum(known) if known else None

    @property
    def under_replicated(self) -> int:
        return sum(len(partition.isr) < len(partition.replicas) for partition in self.topic.partitions)

    @property
    def without_leader(self) -> int:
        return sum(partition.leader is None for partition in self.topic.partitions)

    def _records(self, partition: Partition) -> int | None:
        key = self._key(partition)
        return self.latest[key] - self.earliest[key] if key in self.latest and key in self.earliest else None

    def _summary(self) -> str:
        replicas = len(self.topic.partitions[0].replicas) if self.topic.partitions else 0
        parts = [
            count(len(self.topic.partitions), "partition"),
            f"{count(replicas, 'replica')} each",
            count(self.records, "record"),
        ]
        if self.size is not None:
            parts.append(human_bytes(self.size))
        return f"{self.topic.name}: {', '.join(parts)} (id {self.topic.id})"

    def _heading(self, separator: str) -> str:
        configs = ",".join(f"{name}={value}" for name, value in self.overrides.items())
        fields = {
            "Topic": self.topic.name,
            "TopicId": self.topic.id,
            "PartitionCount": len(self.topic.partitions),
            "ReplicationFactor": len(self.topic.partitions[0].replicas) if self.topic.partitions else 0,
            "Configs": configs,
        }
        return separator.join(f"{name}: {value}" for name, value in fields.items())

    def _key(self, partition: Partition) -> TopicPartition:
        return TopicPartition(self.topic.name, partition.number)


def describe_topics(admin: Admin, names: list[str]) -> list[TopicDescription]:
    """Describe these topics. All requests after the first are sent together."""
    topics = admin.describe_topics(names)
    partitions = [partition for topic in topics for partition in topic.topic_partitions()]
    earliest = admin.start_offsets(partitions, EARLIEST)
    latest = admin.start_offsets(partitions, LATEST)
    configs = admin.start_configs("topic", names)
    sizes = admin.sizes(topics)
    starts, ends, settings = earliest(), latest(), configs()
    return [
        TopicDescription(
            topic,
            {entry.name: entry.value for entry in settings[topic.name] if entry.source == "DYNAMIC_TOPIC_CONFIG"},
            starts,
            ends,
            sizes,
        )
        for topic in topics
    ]


def _size(size: int | None) -> str | None:
    return None if size is None else human_bytes(size)


def _joined(nodes: list[int]) -> str:
    return ",".join(map(str, nodes))
