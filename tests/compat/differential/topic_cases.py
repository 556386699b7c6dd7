"""CreateTopics, DeleteTopics, CreatePartitions."""

from ottla.model import TopicId
from ottla.wire.api.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.wire.api.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.compat.differential.case import Talk, case, versions

UNKNOWN_ID = TopicId(b"no such topic id")
CREATE, GROW, DELETE = range(2, 8), range(4), range(1, 7)


def topic(
    name: str,
    partitions: int = 1,
    factor: int = 1,
    *,
    assigned: dict[int, list[int]] | None = None,
    **configs: str | None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=it, broker_ids=ids) for it, ids in (assigned or {}).items()
        ],
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )


def create(*topics: CreatableTopic, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), timeout_ms=10_000, validate_only=validate_only)


def validate(*topics: CreatableTopic) -> CreateTopicsRequest:
    return create(*topics, validate_only=True)


def delete(*names: str) -> DeleteTopicsRequest:
    """By name, in the fields of every version."""
    states = [DeleteTopicState(name=name) for name in names]
    return DeleteTopicsRequest(topics=states, topic_names=list(names), timeout_ms=10_000)


def delete_states(*states: DeleteTopicState) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=list(states), timeout_ms=10_000)


def delete_twice_by_id(talk: Talk) -> DeleteTopicsRequest:
    state = DeleteTopicState(topic_id=talk.topic_id("doomed-by-id"))
    return delete_states(state, state)


def delete_by_name_and_id_apart(talk: Talk) -> DeleteTopicsRequest:
    by_id = DeleteTopicState(topic_id=talk.topic_id("doomed-by-id"))
    return delete_states(DeleteTopicState(name="doomed-by-id"), by_id)


def delete_by_id(talk: Talk) -> DeleteTopicsRequest:
    return delete_states(DeleteTopicState(topic_id=talk.topic_id("doomed-by-id")))


def grow(*topics: tuple[str, int, list[list[int]] | None], validate_only: bool = True) -> CreatePartitionsRequest:
    wanted = [
        CreatePartitionsTopic(
            name=name,
            count=count,
            assignments=None if ids is None else [CreatePartitionsAssignment(broker_ids=it) for it in ids],
        )
        for name, count, ids in topics
    ]
    return CreatePartitionsRequest(topics=wanted, timeout_ms=10_000, validate_only=validate_only)


_T = {"topics", "configs"}

CASES = (
    *versions("CreateTopics validates", CREATE, validate(topic("new")), unordered=_T),
    *versions("CreateTopics of a topic that exists", CREATE, create(topic("events"))),
    *versions("CreateTopics of an empty name", CREATE, create(topic(""))),
    *versions("CreateTopics of a bad name", CREATE, create(topic("a b"))),
    *versions("CreateTopics of a dot", (5,), create(topic("."))),
    *versions("CreateTopics of a long name", (5,), create(topic("x" * 250))),
    *versions("CreateTopics of the metadata topic", CREATE, create(topic("__cluster_metadata"))),
    *versions(
        "CreateTopics of the metadata topic and another",
        (5,),
        validate(topic("__cluster_metadata"), topic("new")),
        unordered=_T,
    ),
    *versions("CreateTopics of an internal topic", (5,), validate(topic("__consumer_offsets")), unordered=_T),
    *versions("CreateTopics of the same topic twice", CREATE, create(topic("twice"), topic("twice"))),
    *versions(
        "CreateTopics of a topic twice and another",
        (7,),
        validate(topic("twice"), topic("once"), topic("twice")),
        unordered=_T,
    ),
    *versions("CreateTopics of an empty name twice", (7,), create(topic(""), topic(""))),
    *versions(
        "CreateTopics with a name that collides",
        (7,),
        create(topic("a.b")),
    ),
    *versions("CreateTopics with no partitions", CREATE, create(topic("new", 0))),
    *versions("CreateTopics with negative partitions", CREATE, create(topic("new", -2))),
    *versions("CreateTopics with default partitions", (2, 3, 4, 7), validate(topic("new", -1, -1)), unordered=_T),
    *versions("CreateTopics with no replicas", CREATE, create(topic("new", 1, 0))),
    *versions("CreateTopics with negative replicas", CREATE, create(topic("new", 1, -2))),
    *versions("CreateTopics with too many replicas", CREATE, create(topic("new", 1, 2))),
    *versions("CreateTopics with too many partitions", (7,), create(topic("new", 10_001))),
    *versions("CreateTopics assigned", (4, 7), validate(topic("new", -1, -1, assigned={0: [1], 1: [1]})), unordered=_T),
    *versions("CreateTopics assigned with counts", (4, 7), create(topic("new", 1, 1, assigned={0: [1]}))),
    *versions("CreateTopics assigned with partitions", (4, 7), create(topic("new", 1, -1, assigned={0: [1]}))),
    *versions("CreateTopics assigned with replicas", (4, 7), create(topic("new", -1, 1, assigned={0: [1]}))),
    *versions("CreateTopics assigned to an unknown broker", (4, 7), create(topic("new", -1, -1, assigned={0: [9]}))),
    *versions("CreateTopics assigned to a broker twice", (4, 7), create(topic("new", -1, -1, assigned={0: [1, 1]}))),
    *versions("CreateTopics assigned to a negative broker", (4, 7), create(topic("new", -1, -1, assigned={0: [-1]}))),
    *versions("CreateTopics assigned to nobody", (4, 7), create(topic("new", -1, -1, assigned={0: []}))),
    *versions("CreateTopics assigned with a gap", (4, 7), create(topic("new", -1, -1, assigned={0: [1], 2: [1]}))),
    *versions("CreateTopics assigned from 1", (4, 7), create(topic("new", -1, -1, assigned={1: [1]}))),
    *versions("CreateTopics with a config", (4, 7), validate(topic("new", retention_ms="5")), unordered=_T),
    *versions("CreateTopics with an unknown config", (4, 7), create(topic("new", nope="5"))),
    *versions("CreateTopics with a bad config", (4, 7), create(topic("new", retention_ms="x"))),
    *versions("CreateTopics with a config out of bounds", (4, 7), create(topic("new", segment_bytes="1"))),
    *versions("CreateTopics with a null config", (4, 7), create(topic("new", retention_ms=None))),
    *versions("CreateTopics with tiered storage", (7,), create(topic("new", remote_storage_enable="true"))),
    *versions("CreateTopics of nothing", CREATE, create()),
    *versions("DeleteTopics of an unknown topic", DELETE, delete("unknown")),
    *versions("DeleteTopics of an empty name", DELETE, delete("")),
    *versions("DeleteTopics of a bad name", DELETE, delete("a b")),
    *versions("DeleteTopics of the same topic twice", DELETE, delete("doomed", "doomed")),
    *versions("DeleteTopics of an unknown topic twice", DELETE, delete("unknown", "unknown")),
    *versions(
        "DeleteTopics of a topic twice and others",
        DELETE,
        delete("doomed", "unknown", "doomed"),
        unordered={"responses"},
    ),
    *versions("DeleteTopics of nothing", DELETE, delete()),
    case("DeleteTopics by unknown id", (6, delete_states(DeleteTopicState(topic_id=UNKNOWN_ID)))),
    case("DeleteTopics by id twice", (6, delete_twice_by_id)),
    case("DeleteTopics by name and by id apart", (6, delete_by_name_and_id_apart)),
    case("DeleteTopics by name and id", (6, delete_states(DeleteTopicState(name="events", topic_id=UNKNOWN_ID)))),
    case("DeleteTopics by neither", (6, delete_states(DeleteTopicState()))),
    case("DeleteTopics by id", (6, delete_by_id)),
    case("DeleteTopics by name", (5, delete("doomed"))),
    *versions("CreatePartitions validates", GROW, grow(("grown", 3, None))),
    *versions("CreatePartitions of an unknown topic", GROW, grow(("unknown", 3, None))),
    *versions("CreatePartitions of an empty name", GROW, grow(("", 3, None))),
    *versions("CreatePartitions of a bad name", (0, 3), grow(("a b", 3, None))),
    *versions("CreatePartitions of the same topic twice", GROW, grow(("grown", 3, None), ("grown", 4, None))),
    *versions(
        "CreatePartitions of a topic twice and another",
        (0, 3),
        grow(("grown", 3, None), ("events", 3, None), ("grown", 3, None)),
        unordered={"results"},
    ),
    *versions("CreatePartitions to as many", GROW, grow(("grown", 2, None))),
    *versions("CreatePartitions to fewer", (0, 3), grow(("grown", 1, None))),
    *versions("CreatePartitions to none", (0, 3), grow(("grown", 0, None))),
    *versions("CreatePartitions to a negative number", (0, 3), grow(("grown", -1, None))),
    *versions("CreatePartitions assigned", (0, 3), grow(("grown", 3, [[1]]))),
    *versions("CreatePartitions assigned to an unknown broker", (0, 3), grow(("grown", 3, [[9]]))),
    *versions("CreatePartitions assigned to a broker twice", (0, 3), grow(("grown", 3, [[1, 1]]))),
    *versions("CreatePartitions assigned to nobody", (0, 3), grow(("grown", 3, [[]]))),
    *versions("CreatePartitions with too few assignments", (0, 3), grow(("grown", 4, [[1]]))),
    *versions("CreatePartitions with no assignments", (0, 3), grow(("grown", 3, []))),
    *versions("CreatePartitions of an internal topic", (0, 3), grow(("__consumer_offsets", 3, None))),
    *versions("CreatePartitions of nothing", (0, 3), grow()),
)
