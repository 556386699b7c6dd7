"""The two small property files: `meta.properties` of a log directory, `partition.metadata` of a partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.log.layout import META_PROPERTIES, PARTITION_METADATA
from ottla.log.storage import write_file
from ottla.model import TopicId, format_topic_id, parse_topic_id

if TYPE_CHECKING:
    from ottla.env.disk import Disk


class DirectoryIdentity(NamedTuple):
    """The owner of a log directory. Kafka with ZooKeeper writes version 0: `broker.id` and no `directory.id`."""

    cluster_id: str | None
    node_id: int | None
    directory_id: str | None


def read_identity(disk: Disk, directory: str) -> DirectoryIdentity | None:
    """Read `meta.properties`; None when the file does not exist. Raises ValueError."""
    path = f"{directory}/{META_PROPERTIES}"
    if not disk.exists(path):
        return None
    values = _parse_properties(disk.read_bytes(path))
    if values.get("version", "0") not in ("0", "1"):
        raise ValueError(f"{path} has the unknown version {values['version']}")
    node_id = values.get("node.id", values.get("broker.id"))
    return DirectoryIdentity(
        values.get("cluster.id"), None if node_id is None else int(node_id), values.get("directory.id")
    )


def write_identity(disk: Disk, directory: str, identity: DirectoryIdentity) -> None:
    lines = [
        f"cluster.id={identity.cluster_id}",
        f"directory.id={identity.directory_id}",
        f"node.id={identity.node_id}",
        "version=1",
        "",
    ]
    disk.replace_bytes(f"{directory}/{META_PROPERTIES}", "\n".join(lines).encode())


def _parse_properties(data: bytes) -> dict[str, str]:
    values = {}
    for line in data.decode("latin-1").splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith(("#", "!")):
            values[key.strip()] = value.strip()
    return values


def read_topic_id(disk: Disk, partition_directory: str) -> TopicId | None:
    """The topic id of a partition; None if the file is missing or damaged."""
    try:
        lines = disk.read_bytes(f"{partition_directory}/{PARTITION_METADATA}").decode().splitlines()
        values = dict(line.split(": ", 1) for line in lines)
        return parse_topic_id(values["topic_id"])
    except (FileNotFoundError, KeyError, ValueError):
        return None


def write_topic_id(disk: Disk, partition_directory: str, topic_id: TopicId) -> None:
    """Write the topic id, without a sync. The store has the id too. The copy only distinguishes the partition from a
    deleted one with the same name."""
    text = f"version: 0\ntopic_id: {format_topic_id(topic_id)}"
    write_file(disk, f"{partition_directory}/{PARTITION_METADATA}", text.encode())
