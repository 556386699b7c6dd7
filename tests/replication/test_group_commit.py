"""One sync for all waiting appends, never two at once, and none after a failure."""

import errno
from pathlib import Path

from ottla.replication.group_commit import GroupCommit
from tests.replication.world import PartitionWorld, batch, on_loop, settle


class Syncing:
    """A group commit of a real log, and its callbacks."""

    def __init__(self, path: Path) -> None:
        self.world = PartitionWorld(path, held=True)
        self.synced: list[int] = []
        self.errors: list[BaseException] = []
        self.commit = GroupCommit(self.world.log, self.world.background, self.synced.append, self.errors.append)

    def append(self, count: int = 1) -> None:
        for _ in range(count):
            self.world.partition.append(batch())
            self.commit.sync()


@on_loop
async def test_appends_that_arrive_together_share_a_sync(tmp_path: Path) -> None:
    syncing = Syncing(tmp_path)
    syncing.append(10)
    await settle()
    assert syncing.world.background.started == 1
    await syncing.world.background.finish_all()
    assert syncing.synced == [10]
    assert syncing.world.background.started == 1


@on_loop
async def test_appends_during_a_sync_share_the_next_one(tmp_path: Path) -> None:
    syncing = Syncing(tmp_path)
    syncing.append()
    syncing.world.disk.during_sync = lambda: syncing.append(64)
    await settle()
    await syncing.world.background.finish_one()
    assert syncing.synced == [1], "what came during the sync may have missed it"
    assert syncing.world.background.waiting == 1
    await syncing.world.background.finish_one()
    assert syncing.synced == [1, 65]
    assert syncing.world.background.started == 2
    assert syncing.world.disk.syncs[".log"] == 2


@on_loop
async def test_a_second_sync_never_runs_beside_the_first(tmp_path: Path) -> None:
    syncing = Syncing(tmp_path)
    for _ in range(5):
        syncing.append()
        await settle()
        assert syncing.world.background.waiting == 1
    await syncing.world.background.finish_all()
    assert syncing.world.background.started == 2


@on_loop
async def test_after_a_pause_the_next_append_starts_a_sync_again(tmp_path: Path) -> None:
    syncing = Syncing(tmp_path)
    for count in (1, 2, 3):
        syncing.append()
        await settle()
        await syncing.world.background.finish_all()
        assert syncing.synced[-1] == count
    assert syncing.synced == [1, 2, 3]


@on_loop
async def test_a_failed_sync_is_the_last(tmp_path: Path) -> None:
    """The next fsync may succeed although the kernel has dropped the data of the failed one."""
    syncing = Syncing(tmp_path)
    syncing.world.disk.break_("sync", ".log")
    syncing.append()
    await settle()
    syncing.append()
    await syncing.world.background.finish_one()
    assert [type(error) for error in syncing.errors] == [OSError]
    syncing.world.disk.repair()
    syncing.append()
    await settle()
    assert syncing.world.background.waiting == 0
    assert syncing.synced == []


@on_loop
async def test_an_error_that_nobody_foresaw_is_a_failure_too(tmp_path: Path) -> None:
    syncing = Syncing(tmp_path)
    syncing.world.disk.break_("sync", ".log", RuntimeError("a surprise"))
    syncing.append()
    await settle()
    await syncing.world.background.finish_all()
    assert [str(error) for error in syncing.errors] == ["a surprise"]


@on_loop
async def test_stopped_while_a_sync_runs_and_another_is_due(tmp_path: Path) -> None:
    """The files of a deleted partition are renamed during the sync. Its failure says nothing about the disk."""
    syncing = Syncing(tmp_path)
    syncing.append()
    await settle()
    syncing.append()
    syncing.commit.stop()
    syncing.world.disk.break_("sync", ".log")
    await syncing.world.background.finish_all()
    assert (syncing.synced, syncing.errors) == ([], [])
    assert syncing.world.background.started == 1


@on_loop
async def test_stopped_before_the_first_sync_began(tmp_path: Path) -> None:
    syncing = Syncing(tmp_path)
    syncing.append()
    syncing.commit.stop()
    await settle()
    assert syncing.world.background.started == 0


@on_loop
async def test_no_room_for_the_epochs_is_no_failure_of_the_log(tmp_path: Path) -> None:
    syncing = Syncing(tmp_path)
    syncing.world.disk.break_("replace_bytes", "leader-epoch", OSError(errno.ENOSPC, "No space left on device"))
    syncing.append()
    syncing.world.disk.during_sync = syncing.append
    await settle()
    await syncing.world.background.finish_all()
    assert [type(error).__name__ for error in syncing.errors] == ["NoRoomError"]
    assert not syncing.world.log.fsync_failed
    syncing.world.disk.repair()
    syncing.commit.sync()
    await settle()
    await syncing.world.background.finish_all()
    assert syncing.synced == [2]
