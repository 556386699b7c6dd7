"""What `ottla topics describe` shows of one topic, as JSON, as Kafka's own text, and as a table."""

from dataclasses import dataclass
from typing import Any

import typer

from ottla.cli.admin import EARLIEST, LATEST, Admin, Partition, Topic
from ottla.cli.output import print_table, styled
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
        """The lines scripts already parse, with offsets and size at the end of each."""
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
        print(styled(self._heading("  "), typer.colors.CYAN))
        rows = [
            (
                partition.number,
                partition.leader_id,
                _joined(partition.replicas),
                _joined(partition.isr),
                self.earliest.get(self._key(partition)),
                self.latest.get(self._key(partition)),
                self.sizes.get(self._key(partition)),
            )
            for partition in self.topic.partitions
        ]
        print_table(["PARTITION", "LEADER", "REPLICAS", "ISR", "EARLIEST", "LATEST", "SIZE"], rows)

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
    """Everything about these topics; after the first answer all other questions travel together."""
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


def _joined(nodes: list[int]) -> str:
    return ",".join(map(str, nodes))
