"""Which appends are complete, for any combination of the offsets they wait for."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import ErrorCode, KafkaError
from ottla.replication.appends import WaitingAppends
from tests.manual_clock import ManualClock
from tests.replication.world import expect, on_loop

offsets = st.integers(0, 8)


@on_loop
async def test_an_append_does_not_wait_for_those_before_it() -> None:
    appends = WaitingAppends("clicks-0", ManualClock())
    replicas = appends.add(1, committed=1, timeout=30.0)
    disk = appends.add(2, synced=2)
    both = appends.add(3, committed=3, synced=3, timeout=30.0)
    appends.complete(0, 3, 0)
    assert (replicas.done(), disk.done(), both.done()) == (False, True, False)
    appends.complete(1, 3, 1)
    assert (replicas.done(), both.done()) == (True, False)
    appends.complete(3, 3, 3)
    assert both.done()
    assert not appends.queue


@given(
    needs=st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), max_size=8),
    marks=st.lists(st.tuples(offsets, offsets, offsets), max_size=5),
)
@on_loop
async def test_complete_is_what_has_reached_all_it_waits_for(
    needs: list[tuple[bool, bool, bool]], marks: list[tuple[int, int, int]]
) -> None:
    appends = WaitingAppends("clicks-0", ManualClock())
    wanted = [tuple(end if need else 0 for need in each) for end, each in enumerate(needs, 1)]
    futures = [
        appends.add(end, committed=committed, synced=synced, replicated=replicated)
        for end, (committed, synced, replicated) in enumerate(wanted, 1)
    ]
    reached = (0, 0, 0)
    for mark in marks:
        reached = (max(reached[0], mark[0]), max(reached[1], mark[1]), max(reached[2], mark[2]))
        appends.complete(*reached)
        for end, (each, future) in enumerate(zip(wanted, futures, strict=True), 1):
            complete = all(want <= have for want, have in zip(each, reached, strict=True))
            assert future.done() == (complete and end <= max(reached))
        assert [append.future for append in appends.queue] == [future for future in futures if not future.done()]


@on_loop
async def test_only_appends_with_a_timeout_expire() -> None:
    clock = ManualClock()
    appends = WaitingAppends("clicks-0", clock)
    short, long = (appends.add(1, committed=1, timeout=timeout) for timeout in (1.0, 3.0))
    disk = appends.add(1, synced=1)
    for _ in range(5):
        clock.advance(0.25)
    with expect(ErrorCode.REQUEST_TIMED_OUT):
        await short
    assert (long.done(), disk.done(), len(appends.queue)) == (False, False, 2)
    clock.advance(3.0)
    assert (long.done(), disk.done()) == (True, False)
    assert clock.pending == 0, "nothing is left that could expire"


@on_loop
async def test_a_failure_is_for_all_and_needs_no_listener() -> None:
    clock = ManualClock()
    appends = WaitingAppends("clicks-0", clock)
    waiting = appends.add(1, committed=1, timeout=1.0)
    cancelled: asyncio.Future[None] = appends.add(1, synced=1)
    cancelled.cancel()
    appends.fail(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    with expect(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        await waiting
    assert (len(appends.queue), clock.pending) == (0, 0)
