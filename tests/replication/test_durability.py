"""When a log is synced, and its synced end."""

from pathlib import Path

from ottla.replication.durability import Durability
from tests.replication.world import PartitionWorld, batch, on_loop, settings, settle


class Syncing:
    """The durability of a real log, and its callbacks."""

    def __init__(self, path: Path) -> None:
        self.world = PartitionWorld(path)
        self.synced: list[int] = []
        self.failures: list[BaseException] = []
        self.durability = Durability(
            self.world.log,
            self.world.clock,
            self.world.background,
            lambda: self.synced.append(self.durability.synced_end),
            self.failures.append,
        )

    def append(self, **overrides: str) -> bool:
        self.world.partition.append(batch(b"a"))
        return self.durability.appended(settings({key.replace("_", "."): value for key, value in overrides.items()}))


@on_loop
async def test_an_append_waits_when_it_completes_the_number_of_messages(tmp_path: Path) -> None:
    syncing = Syncing(tmp_path)
    assert [syncing.append(flush_messages="2") for _ in range(2)] == [False, True]
    await settle()
    assert syncing.synced == [2]


@on_loop
async def test_a_timer_is_set_once(tmp_path: Path) -> None:
    syncing = Syncing(tmp_path)
    for _ in range(3):
        syncing.append(flush_ms="1000")
    assert syncing.world.clock.pending == 1
    syncing.world.clock.advance(1.0)
    await settle()
    assert (syncing.synced, syncing.world.clock.pending) == ([3], 0)


@on_loop
async def test_a_failure_is_told_once_and_ends_all_syncs(tmp_path: Path) -> None:
    syncing = Syncing(tmp_path)
    syncing.world.disk.break_("sync", ".log")
    syncing.append(flush_messages="1")
    await settle()
    syncing.world.disk.repair()
    syncing.append(flush_messages="1")
    syncing.durability.start_sync()
    await settle()
    assert (len(syncing.failures), syncing.synced, syncing.durability.synced_end) == (1, [], 0)


@on_loop
async def test_a_log_that_begins_anew_has_nothing_to_sync(tmp_path: Path) -> None:
    syncing = Syncing(tmp_path)
    syncing.append(flush_messages="1")
    await settle()
    syncing.world.log.truncate_fully(100)
    syncing.durability.truncated()
    assert syncing.durability.synced_end == 100
