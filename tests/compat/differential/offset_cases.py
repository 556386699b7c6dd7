"""OffsetCommit, OffsetFetch, OffsetDelete."""

from ottla.model import TopicId
from ottla.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.api.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.wire.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.compat.differential.case import Talk, case, versions

UNKNOWN_ID = TopicId(b"no such topic id")
COMMIT, FETCH, FETCH_GROUPS = range(2, 10), range(1, 8), range(8, 10)

Wanted = tuple[str, list[int]]


def commit(
    group: str,
    *wanted: Wanted,
    generation: int = -1,
    member: str = "",
    instance: str | None = None,
    offset: int = 2,
    metadata: str | None = "two",
    epoch: int = -1,
    retention: int = -1,
) -> OffsetCommitRequest:
    topics = [
        OffsetCommitRequestTopic(
            name=name,
            topic_id=UNKNOWN_ID,
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=offset,
                    committed_leader_epoch=epoch,
                    committed_metadata=metadata,
                )
                for index in partitions
            ],
        )
        for name, partitions in wanted
    ]
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        group_instance_id=instance,
        retention_time_ms=retention,
        topics=topics,
    )


def commit_by_id(talk: Talk) -> OffsetCommitRequest:
    request = commit("commits", ("unknown", [0]), ("events", [0, 9]))
    request.topics[1].topic_id = talk.topic_id("events")
    return request


def fetch(group: str, *wanted: Wanted, stable: bool = False) -> OffsetFetchRequest:
    """In the fields of version 7 and before."""
    topics = [OffsetFetchRequestTopic(name=name, partition_indexes=partitions) for name, partitions in wanted]
    return OffsetFetchRequest(group_id=group, topics=topics, require_stable=stable)


def fetch_groups(*groups: OffsetFetchRequestGroup, stable: bool = False) -> OffsetFetchRequest:
    return OffsetFetchRequest(groups=list(groups), require_stable=stable)


def of(group: str, *wanted: Wanted, member: str | None = None, epoch: int = -1) -> OffsetFetchRequestGroup:
    topics = [
        OffsetFetchRequestTopics(name=name, topic_id=UNKNOWN_ID, partition_indexes=partitions)
        for name, partitions in wanted
    ]
    return OffsetFetchRequestGroup(group_id=group, member_id=member, member_epoch=epoch, topics=topics)


def all_of(group: str) -> OffsetFetchRequestGroup:
    return OffsetFetchRequestGroup(group_id=group, topics=None)


def fetch_by_id(talk: Talk) -> OffsetFetchRequest:
    group = of("known", ("unknown", [0]), ("events", [0, 9]), ("other", [0]))
    assert group.topics is not None
    group.topics[1].topic_id = talk.topic_id("events")
    return fetch_groups(group)


def delete(group: str, *wanted: Wanted) -> OffsetDeleteRequest:
    topics = [
        OffsetDeleteRequestTopic(
            name=name, partitions=[OffsetDeleteRequestPartition(partition_index=it) for it in all_]
        )
        for name, all_ in wanted
    ]
    return OffsetDeleteRequest(group_id=group, topics=topics)


CASES = (
    *versions("OffsetCommit", COMMIT, commit("commits", ("events", [0]))),
    *versions("OffsetCommit of an unknown topic", COMMIT, commit("commits", ("unknown", [0]))),
    *versions("OffsetCommit of an empty name", (2, 9), commit("commits", ("", [0]))),
    *versions("OffsetCommit of an unknown partition", COMMIT, commit("commits", ("events", [9]))),
    *versions("OffsetCommit of a negative partition", (2, 9), commit("commits", ("events", [-1]))),
    *versions(
        "OffsetCommit with errors",
        (2, 9),
        commit("commits", ("unknown", [0, 1]), ("events", [9, 0, 7, 1]), ("empty", [0])),
    ),
    *versions("OffsetCommit of the same twice", (2, 9), commit("commits", ("events", [0, 0]))),
    *versions("OffsetCommit of the same topic twice", (2, 9), commit("commits", ("events", [0]), ("events", [1]))),
    *versions("OffsetCommit of a negative offset", (2, 9), commit("commits", ("events", [0]), offset=-1)),
    *versions("OffsetCommit with null metadata", (2, 9), commit("commits", ("events", [0]), metadata=None)),
    *versions("OffsetCommit with long metadata", (2, 9), commit("commits", ("events", [0]), metadata="x" * 4097)),
    *versions("OffsetCommit of an empty group", COMMIT, commit("", ("events", [0]))),
    *versions(
        "OffsetCommit of an unknown member", COMMIT, commit("known", ("events", [0]), generation=3, member="nobody")
    ),
    *versions(
        "OffsetCommit of an unknown member of an unknown group",
        (2, 9),
        commit("never", ("events", [0]), generation=3, member="nobody"),
    ),
    *versions("OffsetCommit of a member without generation", (2, 9), commit("known", ("events", [0]), member="nobody")),
    *versions(
        "OffsetCommit of an unknown instance", (7, 9), commit("known", ("events", [0]), generation=1, instance="nobody")
    ),
    *versions("OffsetCommit of nothing", COMMIT, commit("commits")),
    *versions("OffsetCommit with a retention time", (2, 4), commit("commits", ("events", [0]), retention=1000)),
    case("OffsetCommit by id", (10, commit_by_id)),
    case("OffsetCommit by unknown ids", (10, commit("commits", ("unknown", [0, 1])))),
    *versions("OffsetFetch", FETCH, fetch("known", ("events", [0]))),
    *versions("OffsetFetch of what is not there", FETCH, fetch("known", ("events", [1, 9]), ("unknown", [0]))),
    *versions("OffsetFetch of an unknown group", FETCH, fetch("never", ("events", [0]))),
    *versions("OffsetFetch of an empty group", FETCH, fetch("", ("events", [0]))),
    *versions("OffsetFetch of the same twice", FETCH, fetch("known", ("events", [0, 0]))),
    *versions(
        "OffsetFetch of the same topic twice",
        (1, 7),
        fetch("known", ("events", [0]), ("events", [0])),
    ),
    *versions("OffsetFetch of nothing", FETCH, fetch("known")),
    *versions("OffsetFetch of everything", range(2, 8), OffsetFetchRequest(group_id="known", topics=None)),
    *versions(
        "OffsetFetch of everything of an unknown group", (2, 7), OffsetFetchRequest(group_id="never", topics=None)
    ),
    *versions(
        "OffsetFetch of groups",
        FETCH_GROUPS,
        fetch_groups(of("known", ("events", [0, 1])), of("never", ("events", [0])), all_of("known")),
    ),
    *versions(
        "OffsetFetch of a group twice",
        FETCH_GROUPS,
        fetch_groups(of("known", ("events", [0])), of("known", ("events", [0]))),
    ),
    *versions("OffsetFetch of no group", FETCH_GROUPS, fetch_groups()),
    *versions("OffsetFetch of an unnamed group", FETCH_GROUPS, fetch_groups(of("", ("events", [0])))),
    *versions("OffsetFetch of stable offsets", FETCH_GROUPS, fetch_groups(of("known", ("events", [0])), stable=True)),
    case("OffsetFetch of an unknown member", (9, fetch_groups(of("known", ("events", [0]), member="nobody", epoch=3)))),
    case(
        "OffsetFetch of an unknown member of an unknown group",
        (9, fetch_groups(of("never", ("events", [0]), member="nobody", epoch=3))),
    ),
    case("OffsetFetch by id", (10, fetch_by_id)),
    case("OffsetFetch by unknown ids", (10, fetch_groups(of("known", ("unknown", [0, 1]))))),
    case("OffsetFetch of everything by id", (10, fetch_groups(all_of("known"), all_of("never")))),
    case("OffsetDelete of an unknown group", (0, delete("never", ("events", [0])))),
    case("OffsetDelete of an empty group", (0, delete("", ("events", [0])))),
    case("OffsetDelete of unknown partitions", (0, delete("doomed-offsets", ("unknown", [0]), ("events", [9, -1])))),
    case("OffsetDelete of what is not there", (0, delete("doomed-offsets", ("events", [1])))),
    case("OffsetDelete of the same twice", (0, delete("doomed-offsets", ("events", [0, 0])))),
    case("OffsetDelete of the same topic twice", (0, delete("doomed-offsets", ("events", [0]), ("events", [1])))),
    case("OffsetDelete of nothing", (0, delete("doomed-offsets"))),
)
