"""`offsets.storage=zookeeper`: commits live in the store, where tools of early Kafka look for them."""

import asyncio
from pathlib import Path

import pytest

from ottla.errors import ErrorCode
from ottla.groups.records import OffsetCommitted
from ottla.model import TopicPartition
from ottla.store.interface import Delete, Put
from tests.coordinator.world import STORES, Broker, Machine
from tests.replication.world import on_loop, settle

IN_STORE = {"offsets.storage": "zookeeper"}
MINUTE = 60.0

on_both_stores = pytest.mark.parametrize("store", STORES)


async def nodes(broker: Broker) -> dict[str, bytes]:
    """The offsets in the store, by path."""
    tree = await broker.store.read_tree("/consumers")
    return {path: node.data for path, node in tree.items() if node.data}


@on_both_stores
@on_loop
async def test_commits_are_nodes_of_the_store(tmp_path: Path, store: str) -> None:
    broker = await Machine(tmp_path, store).start(IN_STORE)
    before = broker.journal.log.end_offset
    assert await broker.commit({0: 5, 2: 7}) == {ErrorCode.NONE}
    assert await broker.commit({0: 6}) == {ErrorCode.NONE}
    assert await nodes(broker) == {
        "/consumers/readers/offsets/clicks/0": b"6",
        "/consumers/readers/offsets/clicks/2": b"7",
    }
    assert broker.journal.log.end_offset == before, "offsets are nowhere else"
    assert broker.committed() == {"clicks-0": 6, "clicks-2": 7}
    await broker.stop()


@pytest.mark.parametrize("clean", [True, False])
@on_both_stores
@on_loop
async def test_they_survive_a_restart(tmp_path: Path, store: str, clean: bool) -> None:
    machine = Machine(tmp_path, store)
    broker = await machine.start(IN_STORE)
    await broker.commit({0: 5})
    await broker.commit({1: 6}, group="group / with % odd. name")
    broker = await machine.restart(broker, IN_STORE, clean=clean)
    assert broker.committed() == {"clicks-0": 5}
    assert broker.committed("group / with % odd. name") == {"clicks-1": 6}
    await broker.stop()


@on_loop
async def test_every_group_is_loaded_by_its_own_partition(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    settings = {**IN_STORE, "offsets.topic.num.partitions": "7"}
    broker = await machine.start(settings)
    groups = [f"group-{number}" for number in range(20)]
    for number, group in enumerate(groups):
        await broker.commit({0: number}, group)
    broker = await machine.restart(broker, settings)
    assert {group: broker.committed(group) for group in groups} == {
        group: {"clicks-0": number} for number, group in enumerate(groups)
    }
    assert len(list(broker.groups.list((), ()))) == 20, "each by one partition, not by all"


@on_loop
async def test_members_are_kept_in_the_journal_all_the_same(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    broker = await machine.start(IN_STORE)
    joined = await broker.form_group()
    member = {"member_id": joined.member_id}
    await broker.commit({0: 5}, generation_id=joined.generation_id, **member)
    broker = await machine.restart(broker, IN_STORE)
    assert broker.groups.describe("readers").state == "Stable"
    assert broker.heartbeat(joined) is ErrorCode.NONE
    assert broker.committed() == {"clicks-0": 5}


@on_both_stores
@on_loop
async def test_removed_offsets_leave_the_store(tmp_path: Path, store: str) -> None:
    broker = await Machine(tmp_path, store).start(IN_STORE)
    await broker.commit({0: 5, 1: 6})
    await broker.groups.delete_offsets("readers", [TopicPartition("clicks", 0)])
    assert await nodes(broker) == {"/consumers/readers/offsets/clicks/1": b"6"}
    assert await broker.groups.delete("readers") is ErrorCode.NONE
    assert await nodes(broker) == {}
    await broker.stop()


@on_loop
async def test_expired_offsets_leave_the_store(tmp_path: Path) -> None:
    broker = await Machine(tmp_path).start({**IN_STORE, "offsets.retention.minutes": "60"})
    await broker.commit({0: 5})
    await broker.pass_time(59 * MINUTE)
    assert await nodes(broker)
    await broker.pass_time(10 * MINUTE)
    assert await nodes(broker) == {}


@on_both_stores
@on_loop
async def test_an_offset_that_somebody_else_removed_does_not_keep_the_others(tmp_path: Path, store: str) -> None:
    broker = await Machine(tmp_path, store).start(IN_STORE)
    await broker.commit({0: 5, 1: 6})
    await broker.store.commit([Delete("/consumers/readers/offsets/clicks/0")])
    assert await broker.groups.delete("readers") is ErrorCode.NONE
    assert await nodes(broker) == {}
    await broker.stop()


@on_loop
async def test_a_store_in_trouble_refuses_the_commit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine(tmp_path)
    broker = await machine.start(IN_STORE)
    await broker.commit({0: 5})
    broker.troubled.broken.add("commit")
    assert await broker.commit({0: 9}) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert "appended records may be lost; reloading the coordinator: The store cannot commit." in caplog.text
    broker.troubled.broken.clear()
    await settle()
    assert await broker.commit({1: 6}) == {ErrorCode.NONE}
    broker = await machine.restart(broker, IN_STORE)
    assert broker.committed() == {"clicks-0": 5, "clicks-1": 6}


@on_loop
async def test_an_answer_waits_for_the_journal_and_the_store(tmp_path: Path) -> None:
    broker = await Machine(tmp_path).start({**IN_STORE, "log.flush.interval.messages": "1"})
    await broker.commit({0: 5})
    broker.background.held = True
    deleting = asyncio.ensure_future(broker.groups.delete("readers"))
    await settle()
    assert await nodes(broker) == {}
    assert not deleting.done(), "that the group is gone is not on disk yet"
    await broker.background.finish_all()
    assert await deleting is ErrorCode.NONE


@on_loop
async def test_nodes_that_make_no_sense_are_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine(tmp_path)
    broker = await machine.start(IN_STORE)
    await broker.commit({0: 5})
    base = "/consumers/readers/offsets/clicks"
    await broker.store.commit([Put(f"{base}/1", b"many"), Put(f"{base}/last", b"1"), Put("/consumers/r/ids/c", b"{}")])
    broker = await machine.restart(broker, IN_STORE)
    assert broker.committed() == {"clicks-0": 5}
    assert f"skipping the unreadable node {base}/1" in caplog.text


# Moving from one storage to the other


@on_loop
async def test_offsets_from_before_the_setting_was_changed_are_still_known(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    broker = await machine.start()
    await broker.commit({0: 5, 1: 5})
    broker = await machine.restart(broker, IN_STORE)
    assert broker.committed() == {"clicks-0": 5, "clicks-1": 5}


@on_loop
async def test_offsets_from_before_do_not_win_over_later_ones(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    broker = await machine.start()
    await broker.commit({0: 5, 1: 5})
    broker = await machine.restart(broker, IN_STORE)
    await broker.commit({0: 9})
    broker = await machine.restart(broker, IN_STORE)
    assert broker.committed() == {"clicks-0": 9, "clicks-1": 5}


@on_both_stores
@on_loop
async def test_offsets_from_before_can_be_removed_for_good(tmp_path: Path, store: str) -> None:
    machine = Machine(tmp_path, store)
    broker = await machine.start()
    await broker.commit({0: 5, 1: 5})
    broker = await machine.restart(broker, IN_STORE)
    await broker.commit({1: 9, 2: 9})
    assert await broker.groups.delete("readers") is ErrorCode.NONE
    await settle()
    broker = await machine.restart(broker, IN_STORE)
    assert broker.committed() == {}
    await broker.stop()


@on_loop
async def test_only_the_offset_itself_is_stored(tmp_path: Path) -> None:
    """The format is early Kafka's: metadata and epoch have no place in it, and retention begins anew."""
    machine = Machine(tmp_path)
    broker = await machine.start(IN_STORE)
    await broker.commit({0: 5})
    broker = await machine.restart(broker, IN_STORE)
    (found,) = broker.groups.committed("readers").all()
    assert found == OffsetCommitted("readers", "clicks", 0, 5, commit_timestamp_ms=broker.clock.time_ms())
