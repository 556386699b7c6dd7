"""The memory of members is bounded: a request beyond the limit is refused and changes nothing."""

import pytest

from ottla.errors import ErrorCode
from ottla.groups import group as group_module
from ottla.groups.commands import LeavingMember, Protocol
from ottla.groups.memory import MemberMemory
from ottla.groups.results import JoinResult, SyncResult
from ottla.groups.state import COMPLETING_REBALANCE, STABLE
from tests.groups.shard import Shard, protocols

LIMIT = 100_000


def offering(size: int) -> tuple[Protocol, ...]:
    return (Protocol("range", bytes(size)),)


def error_of(shard: Shard, token: int) -> ErrorCode | None:
    result = shard.replies.get(token)
    assert result is None or isinstance(result, JoinResult | SyncResult)
    return None if result is None else result.error


def test_joins_beyond_the_limit_are_refused_in_every_group() -> None:
    shard = Shard(member_bytes=LIMIT)
    joins = [shard.join("a", group_id=f"g{number}", offered=offering(20_000), version=3) for number in range(10)]
    refused = [token for token in joins if error_of(shard, token) is ErrorCode.GROUP_MAX_SIZE_REACHED]
    assert refused == joins[4:]
    assert shard.core.memory.used <= LIMIT
    assert sorted(shard.core.groups) == ["g0", "g1", "g2", "g3"]


def test_many_small_protocols_and_pending_members_count_too() -> None:
    shard = Shard(member_bytes=LIMIT)
    small = tuple(Protocol(f"p{number}", b"") for number in range(5_000))
    assert error_of(shard, shard.join("a", offered=small, version=3)) is ErrorCode.GROUP_MAX_SIZE_REACHED
    errors = [error_of(shard, shard.join("a" * 10_000)) for _ in range(20)]
    assert errors[0] is ErrorCode.MEMBER_ID_REQUIRED
    assert errors[-1] is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_member_that_is_refused_stays_as_it_was_and_may_join_again_with_less() -> None:
    shard = Shard(member_bytes=LIMIT)
    [member] = shard.stable_group("a")
    shard.join("b", group_id="others", offered=offering(80_000), version=3)
    group = shard.core.groups["g"]
    before = shard.core.memory.used
    token = shard.join("a", member_id=member, offered=offering(50_000))
    assert error_of(shard, token) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert (group.state, shard.core.memory.used) == (STABLE, before)
    token = shard.join("a", member_id=member, offered=offering(10))
    assert error_of(shard, token) is ErrorCode.NONE


def test_an_assignment_beyond_the_limit_is_refused() -> None:
    shard = Shard(member_bytes=LIMIT)
    token = shard.join("a", version=3)
    shard.fire_next()
    joined = shard.replies[token]
    assert isinstance(joined, JoinResult)
    sync = shard.sync(joined.member_id, 1, {joined.member_id: bytes(LIMIT), "unknown": bytes(LIMIT)})
    assert error_of(shard, sync) is ErrorCode.GROUP_MAX_SIZE_REACHED
    group = shard.core.groups["g"]
    assert group.state is COMPLETING_REBALANCE
    assert group.pending_sync == {joined.member_id}
    sync = shard.sync(joined.member_id, 1, {joined.member_id: b"some", "unknown": bytes(LIMIT)})
    assert error_of(shard, sync) is ErrorCode.NONE


def test_members_that_leave_make_room() -> None:
    shard = Shard(member_bytes=LIMIT)
    for _ in range(10):
        token = shard.join("a", offered=offering(60_000), version=3)
        shard.wait(10_000)
        joined = shard.replies[token]
        assert isinstance(joined, JoinResult)
        assert joined.error is ErrorCode.NONE
        shard.leave(LeavingMember(joined.member_id))
    assert shard.core.memory.used == 0


def test_a_deleted_group_and_a_group_that_could_not_be_written_make_room() -> None:
    shard = Shard()
    shard.next_append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    shard.join("a", version=3)
    assert shard.core.memory.used == 0
    shard.join("a")
    assert shard.core.memory.used > 0
    shard.delete_groups("g")
    assert shard.core.memory.used == 0


def test_names_of_protocols_are_forgotten_with_their_member() -> None:
    shard = Shard()
    [member] = shard.stable_group("a")
    shard.join("b", version=3)
    for number in range(10):
        shard.join("a", member_id=member, offered=(Protocol("range", b""), Protocol(f"p{number}", b"")))
    assert set(shard.core.groups["g"]._supporters) == {"range", "p9"}


def test_subscribed_topics_count_and_too_many_are_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_module, "_MAX_SUBSCRIPTIONS", 100)
    for count, parsed in ((100, 100), (101, None)):
        shard = Shard()
        offered = protocols("range", topics=tuple(f"t{number}" for number in range(count)))
        token = shard.join("a", offered=offered, version=3)
        before = shard.core.memory.used
        shard.fire_next()
        joined = shard.replies[token]
        assert isinstance(joined, JoinResult)
        group = shard.core.groups["g"]
        assert (None if group.subscribed_topics is None else len(group.subscribed_topics)) == parsed
        assert shard.core.memory.used - before == group.subscription_bytes == 150 * (parsed or 0)
        assert group.is_subscribed_to("t0")
        shard.sync(joined.member_id, 1, {joined.member_id: b""})
        shard.leave(LeavingMember(joined.member_id))
        assert shard.core.memory.used == 0


def test_the_limit_is_for_all_cores_together() -> None:
    first = MemberMemory(lambda: first.used + second.used, limit=100)
    second = MemberMemory(lambda: first.used + second.used, limit=100)
    first.used, second.used = 60, 30
    assert second.has_room(10)
    assert not second.has_room(11)
    second.used = 300
    assert first.has_room(-1), "to take less is always allowed"
