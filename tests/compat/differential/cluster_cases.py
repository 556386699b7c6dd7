"""ApiVersions, Metadata, DescribeCluster, DescribeTopicPartitions, FindCoordinator, log directories, elections."""

from ottla.model import TopicId
from ottla.wire.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.api.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ottla.wire.api.api_versions import ApiVersionsRequest
from ottla.wire.api.describe_cluster import DescribeClusterRequest
from ottla.wire.api.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest, DescribeLogDirsResponse
from ottla.wire.api.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from ottla.wire.api.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from ottla.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from tests.compat.differential.case import Build, Talk, case, versions
from tests.server.wire_client import WireClient

UNKNOWN_ID = TopicId(b"no such topic id")
LONG = "x" * 250


def metadata(*names: str | None, **fields: bool) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, **{"allow_auto_topic_creation": False, **fields})


def metadata_by_id(topic_id: TopicId, name: str | None = None) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic_id, name=name)])


def metadata_of_events(talk: Talk) -> MetadataRequest:
    return metadata_by_id(talk.topic_id("events"))


def metadata_of_events_with_name(talk: Talk) -> MetadataRequest:
    return metadata_by_id(talk.topic_id("events"), "events")


def describe_partitions(*names: str, limit: int = 2000, cursor: Cursor | None = None) -> DescribeTopicPartitionsRequest:
    topics = [TopicRequest(name=name) for name in names]
    return DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=limit, cursor=cursor)


def log_dirs(*topics: tuple[str, list[int]]) -> DescribeLogDirsRequest:
    return DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic=name, partitions=it) for name, it in topics])


def move(path: str, *topics: tuple[str, list[int]]) -> AlterReplicaLogDirsRequest:
    wanted = [AlterReplicaLogDirTopic(name=name, partitions=partitions) for name, partitions in topics]
    return AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=wanted)])


def move_to_directory(*topics: tuple[str, list[int]]) -> Build:
    """To the first log directory of the broker that is asked."""

    def build(talk: Talk) -> AlterReplicaLogDirsRequest:
        with WireClient(talk.bootstrap) as client:
            reply = client.call(DescribeLogDirsRequest(topics=[]), 2, DescribeLogDirsResponse)
        return move(reply.results[0].log_dir, *topics)

    return build


def elect(*topics: tuple[str, list[int]], election_type: int = 0) -> ElectLeadersRequest:
    wanted = [TopicPartitions(topic=name, partitions=partitions) for name, partitions in topics]
    return ElectLeadersRequest(election_type=election_type, topic_partitions=wanted)


def reassign(*topics: tuple[str, int, list[int] | None], allowed: bool = True) -> AlterPartitionReassignmentsRequest:
    wanted = [
        ReassignableTopic(name=name, partitions=[ReassignablePartition(partition_index=index, replicas=replicas)])
        for name, index, replicas in topics
    ]
    return AlterPartitionReassignmentsRequest(topics=wanted, allow_replication_factor_change=allowed)


def reassignments(*topics: tuple[str, list[int]]) -> ListPartitionReassignmentsRequest:
    wanted = [ListPartitionReassignmentsTopics(name=name, partition_indexes=it) for name, it in topics]
    return ListPartitionReassignmentsRequest(topics=wanted)


_VERSIONS_IGNORED = {"api_keys", "supported_features", "finalized_features", "zk_migration_ready"}
"""Ottla serves fewer APIs and has one feature only."""

CASES = (
    *versions("ApiVersions", range(3), ApiVersionsRequest(), ignored=_VERSIONS_IGNORED),
    *versions(
        "ApiVersions with a name",
        (3, 4),
        ApiVersionsRequest(client_software_name="test", client_software_version="1"),
        ignored=_VERSIONS_IGNORED,
    ),
    *versions("ApiVersions without a name", (3, 4), ApiVersionsRequest(), ignored=_VERSIONS_IGNORED),
    case(
        "ApiVersions with a bad name",
        (3, ApiVersionsRequest(client_software_name="-x", client_software_version="1")),
        ignored=_VERSIONS_IGNORED,
    ),
    *versions("Metadata of a topic", range(14), metadata("events")),
    *versions("Metadata of an unknown topic", range(14), metadata("unknown")),
    *versions("Metadata of an empty name", range(14), metadata("")),
    *versions("Metadata of a bad name", (0, 5, 13), metadata("a b")),
    *versions("Metadata of a long name", (0, 5, 13), metadata(LONG)),
    *versions("Metadata of no topic", range(1, 14), metadata()),
    *versions("Metadata of the same topic twice", (0, 9, 13), metadata("events", "events")),
    *versions("Metadata of a null name", (10, 11, 12, 13), metadata(None)),
    *versions("Metadata by id", (10, 11, 12, 13), metadata_of_events),
    *versions("Metadata by id and name", (10, 11, 12, 13), metadata_of_events_with_name),
    *versions("Metadata by unknown id", (10, 11, 12, 13), metadata_by_id(UNKNOWN_ID)),
    *versions("Metadata by unknown id and name", (12, 13), metadata_by_id(UNKNOWN_ID, "events")),
    *versions(
        "Metadata of known and unknown topics", (1, 12), metadata("unknown", "events", "a b"), unordered={"topics"}
    ),
    *versions(
        "Metadata with authorized operations",
        (8, 10, 11, 13),
        metadata(
            "events",
            "unknown",
            "a b",
            "",
            include_topic_authorized_operations=True,
            include_cluster_authorized_operations=True,
        ),
        unordered={"topics"},
    ),
    case(
        "Metadata with authorized operations by unknown id",
        (
            13,
            MetadataRequest(
                topics=[MetadataRequestTopic(topic_id=UNKNOWN_ID, name=None)], include_topic_authorized_operations=True
            ),
        ),
    ),
    case("Metadata of an internal topic", (12, metadata("__consumer_offsets"))),
    case("Metadata of the metadata topic", (12, metadata("__cluster_metadata"))),
    case("Metadata creates no topic with auto creation off", (12, metadata("new", allow_auto_topic_creation=True))),
    *versions("DescribeCluster", range(3), DescribeClusterRequest(include_cluster_authorized_operations=True)),
    case("DescribeCluster without operations", (1, DescribeClusterRequest())),
    case("DescribeCluster with fenced brokers", (2, DescribeClusterRequest(include_fenced_brokers=True))),
    *versions("DescribeCluster of controllers", (1, 2), DescribeClusterRequest(endpoint_type=2)),
    *versions("DescribeCluster of a bad endpoint type", (1, 2), DescribeClusterRequest(endpoint_type=9)),
    case("DescribeTopicPartitions of a topic", (0, describe_partitions("events"))),
    case("DescribeTopicPartitions of an unknown topic", (0, describe_partitions("unknown"))),
    case("DescribeTopicPartitions of an empty name", (0, describe_partitions(""))),
    case("DescribeTopicPartitions of a bad name", (0, describe_partitions("a b"))),
    case("DescribeTopicPartitions of a topic twice", (0, describe_partitions("events", "events"))),
    case("DescribeTopicPartitions with errors", (0, describe_partitions("unknown", "events", "", "empty"))),
    case("DescribeTopicPartitions with a limit", (0, describe_partitions("events", "grown", limit=1))),
    case("DescribeTopicPartitions with a limit of 0", (0, describe_partitions("events", "grown", limit=0))),
    case("DescribeTopicPartitions with a negative limit", (0, describe_partitions("events", limit=-1))),
    case(
        "DescribeTopicPartitions from a cursor",
        (0, describe_partitions("events", "grown", cursor=Cursor(topic_name="events", partition_index=1))),
    ),
    case(
        "DescribeTopicPartitions from a cursor past the end",
        (0, describe_partitions("events", "grown", cursor=Cursor(topic_name="events", partition_index=9))),
    ),
    case(
        "DescribeTopicPartitions from a cursor that is not asked for",
        (0, describe_partitions("events", cursor=Cursor(topic_name="grown", partition_index=0))),
    ),
    case(
        "DescribeTopicPartitions from a negative cursor",
        (0, describe_partitions("events", cursor=Cursor(topic_name="events", partition_index=-1))),
    ),
    case(
        "DescribeTopicPartitions from a cursor at an unknown topic",
        (0, describe_partitions("events", "unknown", cursor=Cursor(topic_name="unknown", partition_index=0))),
    ),
    *versions("FindCoordinator of a group", range(4), FindCoordinatorRequest(key="known", key_type=0)),
    *versions("FindCoordinator of a transaction", range(1, 4), FindCoordinatorRequest(key="open", key_type=1)),
    *versions("FindCoordinator of a bad type", range(1, 4), FindCoordinatorRequest(key="x", key_type=9)),
    *versions("FindCoordinator of an empty key", range(4), FindCoordinatorRequest(key="", key_type=0)),
    *versions("FindCoordinator of an empty transaction", (1, 3), FindCoordinatorRequest(key="", key_type=1)),
    *versions(
        "FindCoordinator of several groups", range(4, 7), FindCoordinatorRequest(coordinator_keys=["a", "b", "a", ""])
    ),
    *versions("FindCoordinator of none", range(4, 7), FindCoordinatorRequest(coordinator_keys=[])),
    *versions(
        "FindCoordinator of keys of a bad type", range(4, 7), FindCoordinatorRequest(coordinator_keys=["a"], key_type=9)
    ),
    *versions("FindCoordinator of share keys", (4, 5, 6), FindCoordinatorRequest(coordinator_keys=["a"], key_type=2)),
    *versions("DescribeLogDirs of a topic", range(1, 6), log_dirs(("empty", [0])), unordered={"results"}),
    *versions(
        "DescribeLogDirs of unknown topics", (1, 5), log_dirs(("unknown", [0]), ("", [0])), unordered={"results"}
    ),
    *versions("DescribeLogDirs of unknown partitions", (1, 5), log_dirs(("empty", [7, -1])), unordered={"results"}),
    *versions("DescribeLogDirs of the same twice", (1, 5), log_dirs(("empty", [0, 0])), unordered={"results"}),
    *versions("DescribeLogDirs of nothing", (1, 5), log_dirs(), unordered={"results"}),
    *versions("AlterReplicaLogDirs of an unknown topic", (1, 2), move("/nowhere", ("unknown", [0]))),
    *versions("AlterReplicaLogDirs to an unknown directory", (1, 2), move("/nowhere", ("moved", [0]))),
    *versions("AlterReplicaLogDirs of an unknown partition", (1, 2), move("/nowhere", ("moved", [9]))),
    *versions("AlterReplicaLogDirs to a relative path", (1, 2), move("nowhere", ("moved", [0]))),
    *versions(
        "AlterReplicaLogDirs to an empty path",
        (1, 2),
        move("", ("moved", [0]), ("unknown", [0])),
        unordered={"results"},
    ),
    *versions("AlterReplicaLogDirs of an unknown topic to a directory", (1, 2), move_to_directory(("unknown", [0]))),
    *versions("AlterReplicaLogDirs of an unknown partition to a directory", (1, 2), move_to_directory(("moved", [9]))),
    *versions(
        "AlterReplicaLogDirs of bad names",
        (1, 2),
        move_to_directory(("", [0])),
    ),
    *versions("AlterReplicaLogDirs of a long name", (1, 2), move_to_directory((LONG, [0]))),
    *versions("AlterReplicaLogDirs of nothing", (1, 2), AlterReplicaLogDirsRequest()),
    *versions("ElectLeaders", range(3), elect(("events", [0, 1]))),
    *versions("ElectLeaders unclean", (1, 2), elect(("events", [0]), election_type=1)),
    *versions("ElectLeaders of a bad type", (1, 2), elect(("events", [0]), election_type=7)),
    *versions(
        "ElectLeaders of unknown topics",
        (0, 2),
        elect(("unknown", [0]), ("", [0]), ("events", [9])),
        unordered={"replica_election_results"},
    ),
    *versions("ElectLeaders of the same twice", (0, 2), elect(("events", [0, 0]))),
    *versions("ElectLeaders of a topic twice", (0, 2), elect(("events", [0]), ("events", [1]))),
    *versions(
        "ElectLeaders of all",
        (0, 2),
        ElectLeadersRequest(topic_partitions=None),
        unordered={"replica_election_results"},
    ),
    *versions("ElectLeaders of none", (0, 2), elect()),
    *versions("AlterPartitionReassignments", (0, 1), reassign(("moved", 0, [1]))),
    *versions("AlterPartitionReassignments to an unknown broker", (0, 1), reassign(("moved", 0, [9]))),
    *versions("AlterPartitionReassignments to a negative broker", (0, 1), reassign(("moved", 0, [-1]))),
    *versions("AlterPartitionReassignments to a broker twice", (0, 1), reassign(("moved", 0, [1, 1]))),
    *versions("AlterPartitionReassignments to nobody", (0, 1), reassign(("moved", 0, []))),
    *versions("AlterPartitionReassignments cancels nothing", (0, 1), reassign(("moved", 0, None))),
    *versions("AlterPartitionReassignments of an unknown topic", (0, 1), reassign(("unknown", 0, [1]))),
    *versions("AlterPartitionReassignments of an empty name", (0, 1), reassign(("", 0, [1]))),
    *versions("AlterPartitionReassignments of an unknown partition", (0, 1), reassign(("moved", 9, [1]))),
    *versions("AlterPartitionReassignments of a topic twice", (0, 1), reassign(("moved", 0, [1]), ("moved", 0, [1]))),
    *versions("AlterPartitionReassignments of nothing", (0, 1), reassign()),
    case("AlterPartitionReassignments of another factor", (1, reassign(("moved", 0, [1, 2]), allowed=False))),
    case("ListPartitionReassignments", (0, ListPartitionReassignmentsRequest(topics=None))),
    case("ListPartitionReassignments of a topic", (0, reassignments(("events", [0, 1])))),
    case("ListPartitionReassignments of unknown topics", (0, reassignments(("unknown", [0]), ("events", [9])))),
    case("ListPartitionReassignments of nothing", (0, reassignments())),
)
