"""Groups over a real partition: what was answered survives, what could not be written is refused."""

import asyncio
from pathlib import Path

import pytest

from ottla.errors import ErrorCode
from ottla.groups.commands import Commit, LeavingMember, PartitionCommit
from ottla.groups.records import OffsetCommitted
from ottla.model import GROUP_OFFSETS_TOPIC, TopicPartition
from ottla.records.builder import NewRecord, build_batch
from ottla.records.format import Codec
from ottla.records.header import iter_headers, read_header
from tests.coordinator.world import STORES, Machine
from tests.replication.world import expect, on_loop, settle

SYNC_EACH = {"log.flush.interval.messages": "1"}
IN_STORE = {"offsets.storage": "zookeeper"}
MINUTE = 60.0
DAY = 24 * 60 * MINUTE

on_both_stores = pytest.mark.parametrize("store", STORES)


# Finding the coordinator


@on_loop
async def test_the_first_group_creates_the_offsets_topic(tmp_path: Path) -> None:
    broker = await Machine(tmp_path).boot({"offsets.topic.num.partitions": "4"})
    with expect(ErrorCode.COORDINATOR_NOT_AVAILABLE):
        broker.groups.committed("readers")
    await broker.groups.locate("readers")
    await broker.groups.locate("readers")
    assert len(broker.metadata.image.topics[GROUP_OFFSETS_TOPIC].partitions) == 4
    await settle()
    assert list(broker.groups.list((), ())) == []


@on_loop
async def test_two_who_look_for_the_coordinator_at_once(tmp_path: Path) -> None:
    broker = await Machine(tmp_path).boot()
    await asyncio.gather(broker.groups.locate("readers"), broker.groups.locate("writers"))
    await settle()
    assert broker.committed("writers") == {}


@on_loop
async def test_an_offsets_topic_that_cannot_be_created(tmp_path: Path) -> None:
    broker = await Machine(tmp_path).boot({"offsets.topic.replication.factor": "3"})
    with expect(ErrorCode.COORDINATOR_NOT_AVAILABLE):
        await broker.groups.locate("readers")


# Loading


@pytest.mark.parametrize("clean", [True, False])
@on_both_stores
@on_loop
async def test_offsets_are_loaded_after_a_restart(tmp_path: Path, store: str, clean: bool) -> None:
    machine = Machine(tmp_path, store)
    broker = await machine.start()
    assert await broker.commit({0: 5, 1: 7}) == {ErrorCode.NONE}
    assert await broker.commit({0: 6}) == {ErrorCode.NONE}
    assert await broker.commit({2: 1}, group="writers") == {ErrorCode.NONE}
    broker = await machine.restart(broker, clean=clean)
    assert broker.committed("readers") == {"clicks-0": 6, "clicks-1": 7}
    assert broker.committed("writers") == {"clicks-2": 1}
    await broker.stop()


@on_loop
async def test_a_stable_group_goes_on_after_a_restart(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    broker = await machine.start()
    joined = await broker.form_group(session=10)
    broker = await machine.restart(broker, clean=False)
    described = broker.groups.describe("readers")
    assert (described.state, described.protocol_name) == ("Stable", "range")
    assert [(member.member_id, member.assignment) for member in described.members] == [(joined.member_id, b"all")]
    await broker.pass_time(9)
    assert broker.heartbeat(joined) is ErrorCode.NONE
    await broker.pass_time(9)
    assert broker.heartbeat(joined) is ErrorCode.NONE
    assert await broker.commit({0: 1}, member_id=joined.member_id, generation_id=1) == {ErrorCode.NONE}
    assert await broker.commit({0: 1}, member_id=joined.member_id, generation_id=0) == {ErrorCode.ILLEGAL_GENERATION}


@on_loop
async def test_a_member_that_did_not_survive_the_restart_times_out(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    broker = await machine.start()
    joined = await broker.form_group(session=10)
    broker = await machine.restart(broker)
    await broker.pass_time(10)
    assert broker.groups.describe("readers").state == "Empty"
    assert broker.heartbeat(joined) is ErrorCode.UNKNOWN_MEMBER_ID


@on_loop
async def test_while_loading_clients_are_told_to_come_back(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    broker = await machine.start()
    joined = await broker.form_group()
    await broker.stop()
    broker = await machine.boot()
    with expect(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
        broker.heartbeat(joined)
    with expect(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
        broker.groups.committed("readers")
    with expect(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
        list(broker.groups.list((), ()))
    with expect(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
        await broker.commit({0: 1})
    await settle()
    assert broker.heartbeat(joined) is ErrorCode.NONE


@on_loop
async def test_a_record_that_nobody_understands_does_not_cost_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    machine = Machine(tmp_path)
    broker = await machine.start()
    await broker.commit({0: 5})
    control = build_batch([NewRecord(b"\x00\x00\x00\x01", b"\x00" * 6)], control=True)
    broker.journal.log.append(memoryview(control), read_header(control), 0)
    garbage = [NewRecord(b"", b""), NewRecord(b"\x00\x01\x00", b"?"), NewRecord(b"\x00\x63", b"of a later release")]
    broker.journal.append(memoryview(build_batch(garbage)), inspected=True)
    await broker.commit({1: 6})
    broker = await machine.restart(broker)
    assert broker.committed() == {"clicks-0": 5, "clicks-1": 6}
    passed_over = [
        line.partition("offset ")[2][0] for line in caplog.messages if "skipping the unreadable record" in line
    ]
    assert passed_over == ["2", "3"], "neither the control record at 1 nor the unknown type at 4 (KIP-915)"


@on_loop
async def test_a_load_that_fails_is_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine(tmp_path)
    broker = await machine.start(IN_STORE)
    await broker.commit({0: 5})
    await broker.stop()
    broker = await machine.boot(IN_STORE)
    broker.troubled.broken.add("read_tree")
    await settle()
    with expect(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
        broker.groups.committed("readers")
    assert "loading the coordinator failed; next attempt in 5 s" in caplog.text
    broker.troubled.broken.clear()
    await broker.pass_time(5)
    assert broker.committed() == {"clicks-0": 5}


@on_loop
async def test_stopped_while_loading(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    broker = await machine.start(IN_STORE)
    await broker.stop()
    broker = await machine.boot(IN_STORE)
    broker.troubled.broken.add("read_tree")
    await settle()
    await broker.stop()
    await broker.pass_time(60)
    with expect(ErrorCode.NOT_COORDINATOR):
        broker.groups.committed("readers")
    assert broker.clock.pending == 0


@on_loop
async def test_a_long_journal_is_loaded_in_turns_with_other_work(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    broker = await machine.start()
    for number in range(10):
        await broker.groups.commit(_bulky_commit(number))
    assert broker.journal.log.size() > 3 << 20
    await broker.stop()
    broker = await machine.boot()
    for _ in range(3):
        await asyncio.sleep(0)
        with expect(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
            broker.groups.committed("readers")
    await settle()
    assert broker.committed()["clicks-0"] == 9


def _bulky_commit(number: int) -> Commit:
    details = [PartitionCommit("clicks", index, number, metadata="m" * 4000) for index in range(80)]
    return Commit("readers", details)


# Members and timers


@on_loop
async def test_text_of_clients_stays_on_its_line_of_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    broker = await Machine(tmp_path).start()
    group = "readers\r\nERROR all is lost\x1b[31m"
    joined = await broker.form_group(group)
    await broker.groups.leave(group, [LeavingMember(joined.member_id, reason="why\nnot" + "x" * 10_000)])
    lines = [line for line in caplog.messages if "all is lost" in line]
    assert any("leaves group" in line for line in lines)
    assert all(line.isprintable() and len(line) < 1000 for line in lines)
    assert "readers\\r\\nERROR all is lost\\x1b[31m" in lines[0]


@on_loop
async def test_a_silent_member_is_removed_after_its_session(tmp_path: Path) -> None:
    broker = await Machine(tmp_path).start()
    joined = await broker.form_group(session=10)
    await broker.pass_time(6)
    assert broker.heartbeat(joined) is ErrorCode.NONE
    await broker.pass_time(9)
    assert broker.groups.describe("readers").state == "Stable", "a heartbeat moves the deadline"
    await broker.pass_time(1)
    assert broker.groups.describe("readers").state == "Empty"


@on_loop
async def test_a_second_member_makes_the_first_join_again(tmp_path: Path) -> None:
    broker = await Machine(tmp_path).start()
    first = await broker.form_group()
    joining = broker.join()
    await settle()
    assert broker.heartbeat(first) is ErrorCode.REBALANCE_IN_PROGRESS
    again = broker.join(first.member_id)
    results = await asyncio.gather(joining, again)
    assert {result.generation_id for result in results} == {2}
    leader = next(result for result in results if result.leader == result.member_id)
    assert len(leader.members) == 2


@on_loop
async def test_a_member_that_does_not_join_again_holds_the_others_up_for_the_rebalance_timeout_only(
    tmp_path: Path,
) -> None:
    broker = await Machine(tmp_path).start()
    silent = await broker.form_group(session=300)
    joining = broker.join()
    await settle()
    await broker.pass_time(59)
    assert not joining.done()
    await broker.pass_time(1)
    joined = await joining
    assert [member.member_id for member in joined.members] == [joined.member_id]
    assert broker.heartbeat(silent) is ErrorCode.UNKNOWN_MEMBER_ID


@on_loop
async def test_who_waits_is_answered_when_the_coordinator_stops(tmp_path: Path) -> None:
    broker = await Machine(tmp_path).start()
    await broker.form_group()
    joining = broker.join()
    await settle()
    broker.transactions.stop()
    broker.groups.stop()
    assert (await joining).error is ErrorCode.NOT_COORDINATOR
    assert broker.clock.pending == 0


@on_loop
async def test_a_client_that_hung_up_does_not_break_the_rebalance_it_waited_for(tmp_path: Path) -> None:
    broker = await Machine(tmp_path).start()
    first = await broker.form_group()
    joining = broker.join()
    await settle()
    joining.cancel()
    await settle()
    again = await broker.join(first.member_id)
    assert again.generation_id == 2


@on_loop
async def test_leaving_and_deleting(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    broker = await machine.start()
    joined = await broker.form_group()
    await broker.commit({0: 5}, member_id=joined.member_id, generation_id=joined.generation_id)
    assert await broker.groups.delete("readers") is ErrorCode.NON_EMPTY_GROUP
    assert await broker.leave(joined) is ErrorCode.NONE
    assert await broker.groups.delete("readers") is ErrorCode.NONE
    assert await broker.groups.delete("readers") is ErrorCode.GROUP_ID_NOT_FOUND
    broker = await machine.restart(broker)
    assert list(broker.groups.list((), ())) == []
    assert broker.committed() == {}


# When it cannot be written


@on_loop
async def test_a_commit_that_cannot_be_written_is_refused_and_forgotten(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    broker = await machine.start()
    await broker.commit({0: 5})
    machine.disk.break_("write", GROUP_OFFSETS_TOPIC)
    assert await broker.commit({0: 9, 1: 9}) == {ErrorCode.NOT_COORDINATOR}
    assert broker.committed() == {"clicks-0": 5}
    machine.disk.repair()
    assert await broker.commit({1: 7}) == {ErrorCode.NONE}
    broker = await machine.restart(broker, clean=False)
    assert broker.committed() == {"clicks-0": 5, "clicks-1": 7}


@on_loop
async def test_an_assignment_that_cannot_be_written_makes_the_group_join_again(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    broker = await machine.start()
    joined = await broker.join_alone()
    machine.disk.break_("write", GROUP_OFFSETS_TOPIC)
    assert (await broker.sync(joined)).error is ErrorCode.NOT_COORDINATOR
    machine.disk.repair()
    assert broker.heartbeat(joined) is ErrorCode.REBALANCE_IN_PROGRESS
    again = await broker.join(joined.member_id)
    assert again.generation_id == 2
    assert (await broker.sync(again)).assignment == b"all"


@on_loop
async def test_an_answer_waits_for_the_sync_it_rests_on(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    broker = await machine.start(SYNC_EACH)
    broker.background.held = True
    committing = asyncio.ensure_future(broker.commit({0: 5}))
    await settle()
    assert broker.background.waiting == 1
    assert not committing.done()
    await broker.background.finish_all()
    assert await committing == {ErrorCode.NONE}


@on_loop
async def test_a_failed_sync_refuses_the_commit_and_keeps_what_was_acknowledged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    machine = Machine(tmp_path)
    broker = await machine.start(SYNC_EACH)
    assert await broker.commit({0: 5}) == {ErrorCode.NONE}
    machine.disk.break_("sync", ".log")
    assert await broker.commit({0: 9}) == {ErrorCode.NOT_COORDINATOR}
    assert "appended records may be lost; reloading the coordinator: fsync failed" in caplog.text
    await settle()
    with expect(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
        await broker.commit({1: 9})
    machine.disk.repair()
    broker = await machine.restart(broker, SYNC_EACH, clean=False)
    assert broker.committed()["clicks-0"] in (5, 9), "unknown is whether the refused one is there, not the first"
    assert await broker.commit({1: 1}) == {ErrorCode.NONE}


# Topics and time


@on_both_stores
@pytest.mark.parametrize("settings", [{}, IN_STORE], ids=["kafka", "zookeeper"])
@on_loop
async def test_offsets_of_a_deleted_topic_do_not_greet_the_next(
    tmp_path: Path, store: str, settings: dict[str, str]
) -> None:
    machine = Machine(tmp_path, store)
    broker = await machine.start(settings)
    await broker.create_topic("orders")
    await broker.commit({0: 5, 1: 6})
    await broker.commit({0: 7}, topic="orders")
    await broker.metadata.delete_topic("clicks")
    await settle()
    assert broker.committed() == {"orders-0": 7}
    broker = await machine.restart(broker, settings)
    assert broker.committed() == {"orders-0": 7}
    await broker.stop()


@pytest.mark.parametrize("settings", [{}, IN_STORE], ids=["kafka", "zookeeper"])
@on_loop
async def test_a_topic_deleted_while_its_offsets_are_loaded(tmp_path: Path, settings: dict[str, str]) -> None:
    machine = Machine(tmp_path)
    broker = await machine.start(settings)
    await broker.create_topic("orders")
    await broker.commit({0: 5})
    await broker.commit({0: 7}, topic="orders")
    await broker.stop()
    broker = await machine.boot(settings)
    await broker.metadata.delete_topic("orders")
    await settle()
    assert broker.committed() == {"clicks-0": 5}
    await broker.create_topic("orders")
    topic_id = broker.metadata.image.topics["orders"].topic_id
    assert broker.groups.committed("readers").get("orders", 0, topic_id) is None


@on_loop
async def test_a_topic_deleted_just_before_a_crash(tmp_path: Path) -> None:
    """The store knew that the topic is gone; the tombstones of its offsets never made it to the journal."""
    machine = Machine(tmp_path)
    broker = await machine.start()
    await broker.commit({0: 5})
    broker.groups.stop()
    await broker.metadata.delete_topic("clicks")
    await broker.stop(clean=False)
    broker = await machine.boot()
    await settle()
    assert broker.committed() == {}
    broker = await machine.restart(broker)
    assert broker.committed() == {}


@on_loop
async def test_offsets_expire_after_their_retention(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    settings = {"offsets.retention.minutes": "60"}
    broker = await machine.start(settings)
    await broker.commit({0: 5})
    await broker.pass_time(50 * MINUTE)
    await broker.commit({1: 6})
    await broker.pass_time(9 * MINUTE)
    assert broker.committed() == {"clicks-0": 5, "clicks-1": 6}
    await broker.pass_time(10 * MINUTE)
    assert broker.committed() == {"clicks-1": 6}
    await broker.pass_time(60 * MINUTE)
    assert list(broker.groups.list((), ())) == [], "an empty group without offsets goes, too"
    broker = await machine.restart(broker, settings)
    assert broker.committed() == {}


@on_loop
async def test_seven_days_by_default_and_never_while_a_member_is_there(tmp_path: Path) -> None:
    broker = await Machine(tmp_path).start({"group.max.session.timeout.ms": str(2**31 - 1)})
    joined = await broker.form_group(group="lively", session=20 * DAY)
    await broker.commit({0: 5}, "lively", member_id=joined.member_id, generation_id=joined.generation_id)
    await broker.commit({0: 5}, group="quiet")
    await broker.pass_time(7 * DAY - MINUTE)
    assert broker.committed("quiet") == {"clicks-0": 5}
    await broker.pass_time(10 * MINUTE)
    assert broker.committed("quiet") == {}
    assert broker.committed("lively") == {"clicks-0": 5}


@on_loop
async def test_expiry_that_cannot_be_written_comes_again(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    broker = await machine.start({"offsets.retention.minutes": "1"})
    await broker.commit({0: 5})
    machine.disk.break_("write", GROUP_OFFSETS_TOPIC)
    await broker.pass_time(10 * MINUTE)
    assert broker.committed() == {"clicks-0": 5}
    machine.disk.repair()
    await broker.pass_time(10 * MINUTE)
    assert broker.committed() == {}


# How it is written


@on_loop
async def test_a_decision_is_one_batch(tmp_path: Path) -> None:
    broker = await Machine(tmp_path).start()
    before = broker.journal.log.end_offset
    await broker.commit({0: 1, 1: 2, 2: 3})
    read = broker.journal.read(before, 1 << 20)
    assert read.file is not None
    ((_, header),) = iter_headers(read.file.read(read.size, read.position))
    assert header.record_count == 3


@pytest.mark.parametrize("codec", Codec)
@on_loop
async def test_the_journal_is_compressed_as_asked(tmp_path: Path, codec: Codec) -> None:
    machine = Machine(tmp_path)
    settings = {"offsets.topic.compression.codec": str(int(codec))}
    broker = await machine.start(settings)
    await broker.commit({0: 1, 1: 2, 2: 3})
    read = broker.journal.read(0, 1 << 20)
    assert read.file is not None
    headers = [header for _, header in iter_headers(read.file.read(read.size, read.position))]
    assert {header.codec for header in headers} == {codec}
    broker = await machine.restart(broker, settings)
    assert broker.committed() == {"clicks-0": 1, "clicks-1": 2, "clicks-2": 3}


@on_loop
async def test_what_was_committed_comes_back_in_every_detail(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    broker = await machine.start()
    topic_id = broker.metadata.image.topics["clicks"].topic_id
    commit = PartitionCommit("clicks", 0, 5, leader_epoch=3, metadata="note", topic_id=topic_id)
    await broker.groups.commit(Commit("readers", [commit]))
    now_ms = broker.clock.time_ms()
    broker = await machine.restart(broker)
    found = broker.groups.committed("readers").get("clicks", 0, topic_id)
    assert found == OffsetCommitted("readers", "clicks", 0, 5, 3, "note", now_ms, topic_id=topic_id)


@on_loop
async def test_offsets_can_be_deleted_one_by_one(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    broker = await machine.start()
    await broker.commit({0: 5, 1: 6})
    result = await broker.groups.delete_offsets("readers", [TopicPartition("clicks", 0), TopicPartition("clicks", 2)])
    assert set(result.errors) == {ErrorCode.NONE}
    broker = await machine.restart(broker)
    assert broker.committed() == {"clicks-1": 6}
