"""The classic group protocol, request by request: joining, fencing, offsets, and what a coordinator must refuse."""

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.compat.deadlines import eventually
from tests.compat.wire import Connection, connect


@pytest.fixture
def connection(bootstrap: str, group: str) -> Iterator[Connection]:
    with connect(bootstrap) as each:
        wait_for_coordinator(each, group)
        yield each


def wait_for_coordinator(connection: Connection, group: str) -> None:
    """The very first group of a broker finds the coordinator busy with creating the offsets topic."""

    def ready() -> bool:
        [found] = connection.call("find_coordinator", 4, key_type=0, coordinator_keys=[group]).coordinators
        return (
            found.error_code is ErrorCode.none and fetch_offset(connection, group, "any").error_code is ErrorCode.none
        )

    eventually(ready)


def send_join(connection: Connection, group: str, member: str = "", **options: Any) -> None:
    settings = {
        "session_timeout": timedelta(seconds=10),
        "rebalance_timeout": timedelta(seconds=10),
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"\x00\x01"}],
        **options,
    }
    connection.send("join_group", 7, group_id=group, member_id=member, **settings)


def join(connection: Connection, group: str, member: str = "", **options: Any) -> Any:
    send_join(connection, group, member, **options)
    return connection.receive("join_group", 7)


def join_fully(connection: Connection, group: str, **options: Any) -> Any:
    """A dynamic member is first told its id and joins again with it (KIP-394)."""
    first = join(connection, group, **options)
    assert first.error_code is ErrorCode.member_id_required
    return join(connection, group, first.member_id, **options)


def sync(connection: Connection, group: str, joined: Any, assignments: dict[str, bytes]) -> Any:
    return connection.call(
        "sync_group",
        5,
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[{"member_id": member, "assignment": part} for member, part in assignments.items()],
    )


def heartbeat(connection: Connection, group: str, generation: int, member: str) -> ErrorCode:
    reply = connection.call("heartbeat", 4, group_id=group, generation_id=generation, member_id=member)
    code: ErrorCode = reply.error_code
    return code


def commit(
    connection: Connection,
    group: str,
    topic: str,
    offset: int,
    *,
    metadata: str | None = "",
    generation: int = -1,
    member: str = "",
) -> ErrorCode:
    partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": metadata}
    reply = connection.call(
        "offset_commit",
        8,
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[{"name": topic, "partitions": [partition]}],
    )
    code: ErrorCode = reply.topics[0].partitions[0].error_code
    return code


def fetch_offset(connection: Connection, group: str, topic: str) -> Any:
    asked = {"group_id": group, "topics": [{"name": topic, "partition_indexes": [0]}]}
    [answer] = connection.call("offset_fetch", 8, groups=[asked]).groups
    return answer


def fetched(connection: Connection, group: str, topic: str) -> tuple[int, str | None]:
    [partition] = fetch_offset(connection, group, topic).topics[0].partitions
    return partition.committed_offset, partition.metadata


def stable_member(connection: Connection, group: str) -> Any:
    joined = join_fully(connection, group)
    assert sync(connection, group, joined, {joined.member_id: b"all"}).error_code is ErrorCode.none
    return joined


def test_a_lone_member_leads_and_gets_what_it_decides(connection: Connection, group: str) -> None:
    joined = join_fully(connection, group)
    assert (joined.error_code, joined.generation_id, joined.leader) == (ErrorCode.none, 1, joined.member_id)
    assert (joined.protocol_type, joined.protocol_name) == ("consumer", "range")
    assert [(m.member_id, m.metadata) for m in joined.members] == [(joined.member_id, b"\x00\x01")]
    synced = sync(connection, group, joined, {joined.member_id: b"assignment"})
    assert (synced.error_code, synced.assignment) == (ErrorCode.none, b"assignment")
    assert heartbeat(connection, group, 1, joined.member_id) is ErrorCode.none


@pytest.mark.parametrize("version", range(10))
def test_every_version_of_join(connection: Connection, group: str, version: int) -> None:
    fields: dict[str, Any] = {
        "group_id": group,
        "session_timeout": timedelta(seconds=10),
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }
    if version >= 1:
        fields["rebalance_timeout"] = timedelta(seconds=10)
    reply = connection.call("join_group", version, member_id="", **fields)
    if version >= 4:
        assert reply.error_code is ErrorCode.member_id_required
        reply = connection.call("join_group", version, member_id=reply.member_id, **fields)
    assert (reply.error_code, reply.generation_id) == (ErrorCode.none, 1)
    assert reply.leader == reply.member_id


def test_a_newcomer_starts_a_rebalance_for_everyone(bootstrap: str, connection: Connection, group: str) -> None:
    old = stable_member(connection, group)
    with connect(bootstrap) as other:
        newcomer = join(other, group)
        send_join(other, group, newcomer.member_id)
        eventually(
            lambda: heartbeat(connection, group, 1, old.member_id) is ErrorCode.rebalance_in_progress, interval=0.05
        )
        leader = join(connection, group, old.member_id)
        follower = other.receive("join_group", 7)
        assert leader.generation_id == follower.generation_id == 2
        assert {m.member_id for m in leader.members} == {old.member_id, newcomer.member_id}
        assert (follower.leader, follower.members) == (old.member_id, ())
        decided = {old.member_id: b"one", newcomer.member_id: b"two"}
        assert sync(connection, group, leader, decided).assignment == b"one"
        assert sync(other, group, follower, {}).assignment == b"two"


def test_a_follower_waits_for_the_leaders_decision(bootstrap: str, group: str) -> None:
    with ExitStack() as stack:
        first, second = (stack.enter_context(connect(bootstrap)) for _ in range(2))
        wait_for_coordinator(first, group)
        old = stable_member(first, group)
        newcomer = join(second, group)
        send_join(second, group, newcomer.member_id)
        eventually(lambda: heartbeat(first, group, 1, old.member_id) is ErrorCode.rebalance_in_progress)
        leader = join(first, group, old.member_id)
        follower = second.receive("join_group", 7)
        second.send(
            "sync_group",
            5,
            group_id=group,
            generation_id=follower.generation_id,
            member_id=follower.member_id,
            protocol_type="consumer",
            protocol_name="range",
        )
        sync(first, group, leader, {follower.member_id: b"late"})
        assert second.receive("sync_group", 5).assignment == b"late"


def test_old_generations_and_strangers_are_fenced(connection: Connection, group: str, topic: str) -> None:
    joined = stable_member(connection, group)
    assert heartbeat(connection, group, 99, joined.member_id) is ErrorCode.illegal_generation
    assert heartbeat(connection, group, 1, "stranger") is ErrorCode.unknown_member_id
    assert join(connection, group, "stranger").error_code is ErrorCode.unknown_member_id
    stale = {"generation": 0, "member": joined.member_id}
    assert commit(connection, group, topic, 5, **stale) is ErrorCode.illegal_generation
    assert commit(connection, group, topic, 5, generation=1, member="stranger") is ErrorCode.unknown_member_id
    assert commit(connection, group, topic, 5) is ErrorCode.unknown_member_id
    assert commit(connection, group, topic, 5, generation=1, member=joined.member_id) is ErrorCode.none
    assert fetched(connection, group, topic) == (5, "")


def test_what_does_not_fit_the_group_is_refused(bootstrap: str, connection: Connection, group: str) -> None:
    stable_member(connection, group)
    with connect(bootstrap) as other:
        alien = [{"name": "roundrobin", "metadata": b""}]
        assert join(other, group, protocols=alien).error_code is ErrorCode.inconsistent_group_protocol
        assert join(other, group, protocol_type="connect").error_code is ErrorCode.inconsistent_group_protocol


def test_session_timeouts_have_bounds(connection: Connection, group: str) -> None:
    for seconds in (1, 3600):
        reply = join(connection, group, session_timeout=timedelta(seconds=seconds))
        assert reply.error_code is ErrorCode.invalid_session_timeout


def test_an_empty_group_name_is_refused(connection: Connection) -> None:
    assert join(connection, "").error_code is ErrorCode.invalid_group_id


def test_a_leaving_member_empties_the_group(connection: Connection, group: str) -> None:
    joined = stable_member(connection, group)
    reply = connection.call("leave_group", 5, group_id=group, members=[{"member_id": joined.member_id}])
    assert (reply.error_code, reply.members[0].error_code) == (ErrorCode.none, ErrorCode.none)
    assert heartbeat(connection, group, 1, joined.member_id) is ErrorCode.unknown_member_id
    again = connection.call("leave_group", 5, group_id=group, members=[{"member_id": joined.member_id}])
    assert again.members[0].error_code is ErrorCode.unknown_member_id


def test_a_second_static_member_of_the_same_name_fences_the_first(
    bootstrap: str, connection: Connection, group: str
) -> None:
    first = join(connection, group, group_instance_id="one")
    assert first.error_code is ErrorCode.none
    sync(connection, group, first, {first.member_id: b"all"})
    with connect(bootstrap) as other:
        second = join(other, group, group_instance_id="one")
        assert second.error_code is ErrorCode.none
        assert second.member_id != first.member_id
    fields = {"group_id": group, "generation_id": 1, "member_id": first.member_id, "group_instance_id": "one"}
    assert connection.call("heartbeat", 4, **fields).error_code is ErrorCode.fenced_instance_id


@pytest.mark.parametrize("metadata", ["", "note", "中" * 1000, "x" * 4096])
def test_commit_metadata_comes_back(connection: Connection, group: str, topic: str, metadata: str) -> None:
    assert commit(connection, group, topic, 7, metadata=metadata) is ErrorCode.none
    assert fetched(connection, group, topic) == (7, metadata)


def test_null_metadata_comes_back_empty(connection: Connection, group: str, topic: str) -> None:
    assert commit(connection, group, topic, 7, metadata=None) is ErrorCode.none
    assert fetched(connection, group, topic) == (7, "")


def test_too_much_metadata_is_refused(connection: Connection, group: str, topic: str) -> None:
    assert commit(connection, group, topic, 7, metadata="x" * 4097) is ErrorCode.offset_metadata_too_large
    assert fetched(connection, group, topic) == (-1, "")


def test_a_commit_for_an_unknown_topic_is_refused(connection: Connection, group: str, topic: str) -> None:
    assert commit(connection, group, topic + "-missing", 1) is ErrorCode.unknown_topic_or_partition


@pytest.mark.parametrize("version", range(2, 10))
def test_every_version_of_commit(connection: Connection, group: str, topic: str, version: int) -> None:
    partition = {"partition_index": 0, "committed_offset": 12, "committed_metadata": "v"}
    reply = connection.call(
        "offset_commit",
        version,
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[{"name": topic, "partitions": [partition]}],
    )
    assert reply.topics[0].partitions[0].error_code is ErrorCode.none
    assert fetched(connection, group, topic) == (12, "v")


@pytest.mark.parametrize("version", range(1, 8))
def test_every_old_version_of_offset_fetch(connection: Connection, group: str, topic: str, version: int) -> None:
    commit(connection, group, topic, 12, metadata="v")
    asked = [{"name": topic, "partition_indexes": [0]}]
    reply = connection.call("offset_fetch", version, group_id=group, topics=asked)
    [partition] = reply.topics[0].partitions
    assert (partition.committed_offset, partition.metadata) == (12, "v")


def test_all_offsets_of_several_groups(connection: Connection, group: str, topic: str) -> None:
    for name, offset in ((group, 1), (group + "-b", 2)):
        commit(connection, name, topic, offset)
    asked = [{"group_id": name, "topics": None} for name in (group, group + "-b", group + "-none")]
    reply = connection.call("offset_fetch", 8, groups=asked)
    found = {
        answer.group_id: [p.committed_offset for t in answer.topics for p in t.partitions] for answer in reply.groups
    }
    assert found == {group: [1], group + "-b": [2], group + "-none": []}


def test_describing_groups_that_do_not_exist(connection: Connection, group: str) -> None:
    [old] = connection.call("describe_groups", 5, groups=[group]).groups
    assert (old.error_code, old.group_state) == (ErrorCode.none, "Dead")
    [new] = connection.call("describe_groups", 6, groups=[group]).groups
    assert (new.error_code, new.group_state) == (ErrorCode.group_id_not_found, "Dead")


def test_the_coordinator_is_found_in_every_version(connection: Connection, bootstrap: str, group: str) -> None:
    for version in range(7):
        if version < 4:
            found = connection.call("find_coordinator", version, key=group)
        else:
            [found] = connection.call("find_coordinator", version, coordinator_keys=[group]).coordinators
        assert (found.error_code, f"{found.host}:{found.port}") == (ErrorCode.none, bootstrap)
