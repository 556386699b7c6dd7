"""What the traces do not say: the order of calls, the limits, and offsets by topic id."""

from collections.abc import Callable

import pytest

from ottla.coordinator_core.command_gate import CommandOrderError
from ottla.coordinator_core.effects import MAX_PORTION, Now, Reply, response_error
from ottla.errors import ErrorCode
from ottla.groups.commands import Commit, LeavingMember, PartitionCommit, Protocol, TxnCommit
from ottla.groups.core import GroupCore
from ottla.groups.effects import Outcome, TimerKey, TimerKind
from ottla.groups.parameters import GroupParameters
from ottla.groups.records import GroupRemoved, GroupStored, OffsetCommitted, OffsetRemoved, StoredMember
from ottla.groups.results import (
    CommitResult,
    DeleteGroupsResult,
    DeleteOffsetsResult,
    JoinResult,
    LeaveResult,
    LeftMember,
    Result,
    SyncResult,
)
from ottla.model import ZERO_TOPIC_ID, Producer, TopicId, TopicPartition
from tests.groups.shard import WALL_START_MS, Shard, protocols, subscription

OLD_TOPIC = TopicId(b"o" * 16)
NEW_TOPIC = TopicId(b"n" * 16)


def stored(subscribed: bytes, generation: int = 1, protocol_type: str = "consumer") -> GroupStored:
    member = StoredMember("a-1", None, "a", "/127.0.0.1", 60_000, 10_000, subscribed, b"assigned")
    return GroupStored("g", generation, protocol_type, "range", "a-1", WALL_START_MS, (member,))


def loaded(*records: GroupStored | OffsetCommitted | GroupRemoved) -> Shard:
    shard = Shard()
    for record in records:
        shard.core.replay(record)
    shard.perform(shard.core.on_loaded(shard.now))
    return shard


def test_records_change_nothing_before_they_are_written() -> None:
    core = Shard().core
    core.replay(OffsetCommitted("g", "clicks", 0, 5))
    outcome = core.delete_groups("token", ["g"])
    assert core.fetch_offset("g", "clicks", 0) is not None
    core.written(outcome)
    assert core.fetch_offset("g", "clicks", 0) is None


@pytest.mark.parametrize(
    "mistake",
    [
        lambda core, now: core.timer_fired(TimerKey(TimerKind.JOIN, "g"), now),
        lambda core, now: core.append_failed(Outcome(), ErrorCode.KAFKA_STORAGE_ERROR, now),
        lambda core, now: core.written(Outcome()),
        lambda core, now: core.replay_end_txn(7, committed=True),
    ],
)
def test_a_core_that_was_called_out_of_order_refuses_every_further_command(
    mistake: Callable[[GroupCore, Now], object],
) -> None:
    shard = Shard()
    core = shard.core
    core.replay(OffsetCommitted("g", "clicks", 0, 5))
    outcome = core.delete_groups("token", ["g"])
    with pytest.raises(CommandOrderError):
        mistake(core, shard.now)
    with pytest.raises(CommandOrderError, match="in state 'failed'"):
        core.written(outcome)
    with pytest.raises(CommandOrderError, match="in state 'failed'"):
        core.delete_groups("token", ["nope"])


@pytest.mark.parametrize(
    ("result", "failed"),
    [
        (JoinResult(ErrorCode.NONE, "a-1", 1), JoinResult(ErrorCode.NOT_COORDINATOR, "")),
        (SyncResult(ErrorCode.NONE, "consumer", "range", b"x"), SyncResult(ErrorCode.NOT_COORDINATOR)),
        (LeaveResult(ErrorCode.NONE, (LeftMember("a", None, ErrorCode.NONE),)), LeaveResult(ErrorCode.NOT_COORDINATOR)),
        (CommitResult((ErrorCode.NONE,) * 2), CommitResult((ErrorCode.NOT_COORDINATOR,) * 2)),
        (
            DeleteOffsetsResult(ErrorCode.NONE, (ErrorCode.NONE,)),
            DeleteOffsetsResult(ErrorCode.NOT_COORDINATOR),
        ),
        (DeleteGroupsResult((ErrorCode.NONE,)), DeleteGroupsResult((ErrorCode.NOT_COORDINATOR,))),
    ],
)
def test_a_reply_that_rests_on_nothing_is_refused(result: Result, failed: Result) -> None:
    assert Reply(7, result).failed(ErrorCode.NOT_LEADER_OR_FOLLOWER) == Reply(7, failed)


@pytest.mark.parametrize(
    ("append_error", "told"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_FETCH_SIZE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
def test_clients_hear_of_coordinators_not_of_partitions(append_error: ErrorCode, told: ErrorCode) -> None:
    assert response_error(append_error) is told


def test_a_group_without_a_name_has_no_members() -> None:
    shard = Shard()
    assert shard.replies[shard.join("a", group_id="")] == JoinResult(ErrorCode.INVALID_GROUP_ID, "")
    assert shard.replies[shard.sync("a-1", 1, group_id="")] == SyncResult(ErrorCode.INVALID_GROUP_ID)
    assert shard.replies[shard.leave(group_id="")] == LeaveResult(ErrorCode.INVALID_GROUP_ID)
    assert shard.heartbeat("a-1", 1, group_id="") is ErrorCode.INVALID_GROUP_ID


def test_a_group_without_a_name_may_have_offsets() -> None:
    """Kafka keeps this for its oldest clients."""
    shard = Shard()
    shard.commit(PartitionCommit("clicks", 0, 5), group_id="")
    assert [it.offset for it in shard.core.fetch_all_offsets("")] == [5]


def test_metadata_is_limited_in_utf16_units() -> None:
    shard = Shard(GroupParameters(offset_metadata_max_bytes=4))
    notes = ["", None, "four", "fünf", "🚀🚀", "fives", "🚀🚀🚀"]
    token = shard.commit(*[PartitionCommit("clicks", at, 5, 0, note) for at, note in enumerate(notes)])
    assert shard.replies[token] == CommitResult(
        (ErrorCode.NONE,) * 5 + (ErrorCode.OFFSET_METADATA_TOO_LARGE,) * 2,
    )
    assert [it.metadata for it in shard.core.fetch_all_offsets("g")] == ["", "", "four", "fünf", "🚀🚀"]


def test_a_commit_keeps_all_it_was_given() -> None:
    shard = Shard()
    shard.steady_ms = 50
    shard.commit(PartitionCommit("clicks", 3, 42, 7, "note", NEW_TOPIC), retention_time_ms=-1)
    shard.crash()
    assert shard.core.fetch_offset("g", "clicks", 3) == OffsetCommitted(
        "g", "clicks", 3, 42, 7, "note", WALL_START_MS + 50, -1, NEW_TOPIC
    )


def test_a_transactional_commit_keeps_all_it_was_given() -> None:
    shard = Shard()
    shard.steady_ms = 50
    shard.commit_txn(Producer(7, 3), PartitionCommit("clicks", 3, 42, 9, "note", NEW_TOPIC))
    shard.steady_ms = 80
    shard.end_txn(7, committed=True)
    shard.crash()
    assert shard.core.fetch_offset("g", "clicks", 3) == OffsetCommitted(
        "g", "clicks", 3, 42, 9, "note", WALL_START_MS + 50, -1, NEW_TOPIC
    )


def test_the_records_of_a_transactional_commit_and_no_others_belong_to_the_producer() -> None:
    shard = Shard()
    producer = Producer(7, 3)
    outcome = shard.core.commit_txn_offsets("token", TxnCommit("g", producer, [PartitionCommit("t", 0, 5)]), shard.now)
    assert outcome.records
    assert outcome.producer == producer
    shard.perform(outcome)
    others: list[Callable[[], Outcome]] = [
        lambda: shard.core.commit_offsets("token", Commit("g", [PartitionCommit("t", 0, 5)]), shard.now),
        lambda: shard.core.delete_offsets("token", "g", [TopicPartition("t", 0)]),
        lambda: shard.core.delete_groups("token", ["g"]),
    ]
    for command in others:
        outcome = command()
        assert outcome.records
        assert outcome.producer is None
        shard.core.written(outcome)


def test_a_tombstone_takes_effect_at_once_in_whatever_batch_it_stands() -> None:
    core = loaded(OffsetCommitted("g", "clicks", 0, 5)).core
    core.replay(OffsetRemoved("g", "clicks", 0), 7)
    assert core.fetch_all_offsets("g") == []


def test_pending_offsets_outlive_a_group_that_was_removed_without_them() -> None:
    core = loaded(stored(subscription("clicks"))).core
    core.replay(OffsetCommitted("g", "clicks", 0, 5), 7)
    core.replay(GroupRemoved("g"))
    assert core.describe("g").state == "Empty"
    assert core.is_unstable("g", "clicks", 0)
    core.replay_end_txn(7, committed=True)
    assert [it.offset for it in core.fetch_all_offsets("g")] == [5]


def test_a_partition_can_be_loaded_again_after_it_was_unloaded() -> None:
    shard = Shard()
    shard.commit_txn(Producer(7, 0), PartitionCommit("clicks", 0, 5))
    shard.end_txn(7, committed=True)
    shard.commit_txn(Producer(7, 0), PartitionCommit("clicks", 1, 6))
    shard.core.unload(shard.now)
    assert shard.core.groups == {}
    shard.replay_log(shard.core)
    assert [it.partition for it in shard.core.fetch_all_offsets("g")] == [0]
    assert shard.core.is_unstable("g", "clicks", 1)


def test_a_pending_offset_belongs_to_the_topic_not_to_its_name() -> None:
    shard = loaded(OffsetCommitted("g", "clicks", 0, 1, topic_id=NEW_TOPIC))
    for partition, topic_id in ((1, OLD_TOPIC), (2, NEW_TOPIC), (3, ZERO_TOPIC_ID)):
        shard.commit_txn(Producer(7, 0), PartitionCommit("clicks", partition, 5, topic_id=topic_id))
    outcome = shard.perform(shard.core.on_topics_deleted({"clicks": OLD_TOPIC}, ["g"]))
    assert outcome.records == [OffsetRemoved("g", "clicks", 1), OffsetRemoved("g", "clicks", 3)]
    shard.end_txn(7, committed=True)
    assert [it.partition for it in shard.core.fetch_all_offsets("g")] == [0, 2]


def test_an_offset_belongs_to_the_topic_not_to_its_name() -> None:
    shard = loaded(
        OffsetCommitted("g", "clicks", 0, 5, topic_id=OLD_TOPIC),
        OffsetCommitted("g", "clicks", 1, 6, topic_id=NEW_TOPIC),
        OffsetCommitted("g", "clicks", 2, 7),
    )

    def fetched(*topic_id: TopicId) -> list[int | None]:
        found = [shard.core.fetch_offset("g", "clicks", partition, *topic_id) for partition in range(3)]
        return [None if it is None else it.offset for it in found]

    assert fetched(NEW_TOPIC) == [None, 6, 7]
    assert fetched(OLD_TOPIC) == [5, None, 7]
    assert fetched() == [5, 6, 7]
    outcome = shard.perform(shard.core.on_topics_deleted({"clicks": OLD_TOPIC, "views": NEW_TOPIC}, ["g"]))
    assert outcome.records == [OffsetRemoved("g", "clicks", 0), OffsetRemoved("g", "clicks", 2)]
    assert fetched() == [None, 6, None]


def test_offsets_outlive_a_group_that_was_removed_without_them() -> None:
    shard = loaded(stored(subscription("clicks")), OffsetCommitted("g", "clicks", 0, 5), GroupRemoved("g"))
    assert shard.core.describe("g").state == "Empty"
    assert shard.core.describe("g").protocol_type == ""
    assert shard.core.fetch_offset("g", "clicks", 0) is not None
    assert loaded(stored(subscription("clicks")), GroupRemoved("g")).core.group_ids() == []


def test_a_later_record_replaces_an_earlier_one_when_loading() -> None:
    shard = loaded(stored(subscription("clicks")), stored(subscription("views"), 2))
    (member,) = shard.core.describe("g").members
    assert member.metadata == subscription("views")
    assert shard.heartbeat("a-1", 2) is ErrorCode.NONE


def test_a_loaded_leader_who_is_no_member_is_replaced() -> None:
    shard = loaded(stored(subscription("clicks"))._replace(leader="gone-9"))
    assert shard.core.groups["g"].leader == "a-1"


@pytest.mark.parametrize(
    "metadata", [b"", b"\0\0\0\0\0\1", b"\0\0\0\0\0\1\0\5abc", b"\0\0\0\0\0\1\xff\xff", b"\0\0\0\0\0\1\0\1\xff"]
)
def test_consumers_whose_subscription_cannot_be_read_may_read_anything(metadata: bytes) -> None:
    shard = loaded(stored(metadata), OffsetCommitted("g", "views", 0, 5, commit_timestamp_ms=0))
    token = shard.delete_offsets(TopicPartition("views", 0))
    assert shard.replies[token] == DeleteOffsetsResult(ErrorCode.NONE, (ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,))
    assert shard.expire_offsets().records == []


def test_members_of_another_protocol_protect_all_their_offsets() -> None:
    shard = loaded(stored(b"opaque", protocol_type="connect"), OffsetCommitted("g", "t", 0, 5, commit_timestamp_ms=0))
    token = shard.delete_offsets(TopicPartition("t", 0))
    assert shard.replies[token] == DeleteOffsetsResult(ErrorCode.NON_EMPTY_GROUP)
    assert shard.expire_offsets().records == []


def test_nothing_expires_during_a_rebalance() -> None:
    shard = loaded(stored(subscription("clicks")), OffsetCommitted("g", "views", 0, 5, commit_timestamp_ms=0))
    shard.join("b", version=3)
    assert shard.core.describe("g").state == "PreparingRebalance"
    assert shard.expire_offsets().records == []
    shard.wait(10_000)
    assert shard.core.describe("g").state == "CompletingRebalance"
    assert shard.expire_offsets().records == []
    shard.sync("b-1", 2)
    assert shard.expire_offsets().records == [OffsetRemoved("g", "views", 0)]


def test_an_empty_group_of_the_oldest_format_expires_by_commit() -> None:
    """Before version 2 of the record nobody knew since when a group was empty."""
    retention_ms = GroupParameters().offsets_retention_ms
    shard = loaded(
        GroupStored("g", 3, "consumer"),
        OffsetCommitted("g", "clicks", 0, 5, commit_timestamp_ms=WALL_START_MS - retention_ms),
        OffsetCommitted("g", "clicks", 1, 5, commit_timestamp_ms=WALL_START_MS - retention_ms + 1),
    )
    assert shard.expire_offsets().records == [OffsetRemoved("g", "clicks", 0)]


def test_the_initial_delay_ends_with_the_rebalance_timeout() -> None:
    shard = Shard()
    shard.join("a", version=3, rebalance_timeout_ms=7_000)
    while len(shard.replies) == 0:
        shard.wait(500)
        shard.join("b", version=3, rebalance_timeout_ms=7_000)
    assert shard.steady_ms == 3_000 + 3_000 + 1_000


def test_a_group_of_many_members_with_long_metadata() -> None:
    shard = Shard()
    offered = tuple(Protocol(f"assignor-{at}", subscription(*[f"topic-{at}" for at in range(500)])) for at in range(20))
    tokens = [shard.join(f"c{at}", version=3, offered=offered) for at in range(100)]
    shard.wait(6_000)
    results = [shard.replies[token] for token in tokens]
    assert [len(result.members) for result in results if isinstance(result, JoinResult)] == [100] + [0] * 99
    assert {result.protocol_name for result in results if isinstance(result, JoinResult)} == {"assignor-0"}


def test_heartbeats_have_no_effects() -> None:
    shard = Shard()
    first, second = shard.stable_group("a", "b")
    timers = dict(shard.timers)
    for _ in range(5):
        shard.steady_ms += 1_000
        assert shard.heartbeat(first, 1) is ErrorCode.NONE
        assert shard.heartbeat(second, 1) is ErrorCode.NONE
    assert shard.timers == timers
    assert min(timers.values()) > shard.steady_ms


def test_a_timer_that_fires_too_early_or_too_late_does_no_harm() -> None:
    shard = Shard()
    shard.join("a", version=3, offered=protocols("range"))
    for kind in TimerKind:
        early = shard.core.timer_fired(TimerKey(kind, "g", "a-1"), shard.now)
        assert not early.replies
        assert not early.records
        shard.perform(early)
    shard.wait(3_000)
    assert shard.core.describe("g").state == "CompletingRebalance"
    for key in (TimerKey(TimerKind.JOIN, "g"), TimerKey(TimerKind.SYNC, "g"), TimerKey(TimerKind.SESSION, "g", "x-9")):
        shard.perform(shard.core.timer_fired(key, shard.now))
    shard.perform(shard.core.timer_fired(TimerKey(TimerKind.JOIN, "unknown"), shard.now))
    assert shard.core.describe("g").state == "CompletingRebalance"


def test_timeouts_follow_the_steady_clock() -> None:
    shard = Shard()
    (member,) = shard.stable_group("a")
    a_year_later = Now(shard.steady_ms + 9_999, WALL_START_MS + 365 * 86_400_000)
    for key in list(shard.timers):
        shard.core.timer_fired(key, a_year_later)
    assert shard.core.heartbeat("g", member, None, 1, a_year_later) is ErrorCode.NONE


def test_groups_do_not_touch_each_other() -> None:
    shard = Shard()
    shard.stable_group("a", group_id="first")
    shard.stable_group("b", group_id="second")
    shard.commit(PartitionCommit("clicks", 0, 5), group_id="third")
    listed = {group.group_id: group.state for group in shard.core.list_groups()}
    assert listed == {"first": "Stable", "second": "Stable", "third": "Empty"}
    assert [it.group_id for it in shard.core.list_groups(states=[" STABLE "])] == ["first", "second"]
    assert shard.replies[shard.delete_groups("first", "third")] == DeleteGroupsResult(
        (ErrorCode.NON_EMPTY_GROUP, ErrorCode.NONE)
    )


def test_many_deletions_come_in_portions_that_fit_into_a_batch() -> None:
    groups = MAX_PORTION + 10
    shard = loaded(*(OffsetCommitted(f"g{i}", "t", 0, 5, commit_timestamp_ms=0) for i in range(groups)))
    portions = []
    while records := shard.expire_offsets().records:
        portions.append(len(records))
    assert portions == [MAX_PORTION, MAX_PORTION, 20]
    assert shard.core.groups == {}


def test_all_groups_are_looked_at_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.groups.core._OFFSETS_IN_PORTION", 6)
    shard = loaded(*(OffsetCommitted(f"g{i}", "t", j, 5, commit_timestamp_ms=0) for i in range(5) for j in range(2)))
    portions = shard.core.portions()
    assert next(portions) == ["g0", "g1"]
    shard.delete_groups("g2", "g4")
    assert list(portions) == [["g2", "g3", "g4"]], "deleted groups have no offsets any more"
    assert len(shard.perform(shard.core.expire_offsets(shard.now, ["g2", "g3", "g4"])).records) == 3
    assert shard.core.group_ids() == ["g0", "g1"]


def test_groups_may_change_while_they_are_listed() -> None:
    shard = loaded(*(OffsetCommitted(f"g{i}", "t", 0, 5, commit_timestamp_ms=0) for i in range(3)))
    listed = shard.core.list_groups()
    first = next(listed)
    shard.delete_groups("g1")
    assert [first.group_id, *(group.group_id for group in listed)] == ["g0", "g1", "g2"]


def test_absent_static_members_with_a_rebalance_timeout_of_zero_do_not_keep_the_broker_busy() -> None:
    shard = Shard()
    joining = shard.join("a", instance_id="i", rebalance_timeout_ms=0, session_timeout_ms=60_000)
    while joining not in shard.replies:
        shard.fire_next()
    joined = shard.replies[joining]
    assert isinstance(joined, JoinResult)
    shard.sync(joined.member_id, 1, {}, instance_id="i")
    shard.join("b", rebalance_timeout_ms=0, version=3)
    [newcomer] = shard.core.groups["g"].members.keys() - {joined.member_id}
    shard.leave(LeavingMember(newcomer))
    fired = 0
    while shard.core.describe("g").state != "Empty":
        shard.fire_next()
        fired += 1
        assert fired < 100
    assert shard.steady_ms >= 60_000
