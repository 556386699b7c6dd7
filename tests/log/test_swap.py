"""A start after an interrupted swap."""

from ottla.log.swap import abandon, begin_swap, end_swap, settle_swaps
from ottla.records.builder import NewRecord, build_batch
from tests.log.fault_disk import FaultDisk

HERE = "/clicks-0"
KINDS = ("log", "index", "timeindex", "txnindex")


def name(base_offset: int, kind: str, ending: str = "") -> str:
    return f"{base_offset:020d}.{kind}{ending}"


def put(
    disk: FaultDisk, base_offset: int, ending: str = "", *, records: int = 5, kinds: tuple[str, ...] = KINDS
) -> None:
    """A segment with one batch. The contents of its indexes identify the segment."""
    disk.make_directory(HERE)
    for kind in kinds:
        file = disk.open(f"{HERE}/{name(base_offset, kind, ending)}", create=True)
        if kind == "log":
            file.write(build_batch([NewRecord(b"k", b"v")] * records, base_offset=base_offset), 0)
        else:
            file.write(f"{base_offset}{ending or '.old'}".encode(), 0)


def settle(disk: FaultDisk) -> list[str]:
    names = settle_swaps(disk, HERE, disk.list(HERE))
    assert names == disk.list(HERE)
    return names


def content(disk: FaultDisk, base_offset: int, kind: str) -> str:
    return disk.read_bytes(f"{HERE}/{name(base_offset, kind)}").decode()


def test_nothing_to_settle_is_nothing_to_do() -> None:
    disk = FaultDisk()
    put(disk, 0)
    assert settle(disk) == sorted(name(0, kind) for kind in KINDS)


def test_what_was_being_written_goes() -> None:
    disk = FaultDisk()
    put(disk, 0)
    put(disk, 5)
    before = disk.list(HERE)
    put(disk, 0, ".cleaned")
    put(disk, 5, ".cleaned", kinds=("log",))
    assert settle(disk) == before
    assert content(disk, 0, "index") == "0.old"


def test_a_swap_that_has_not_begun_is_undone() -> None:
    disk = FaultDisk()
    put(disk, 0)
    before = disk.list(HERE)
    put(disk, 0, ".cleaned", kinds=("log", "txnindex"))
    put(disk, 0, ".swap", kinds=("index", "timeindex"))
    assert settle(disk) == before
    assert content(disk, 0, "index") == "0.old"


def test_a_swap_that_has_begun_is_finished() -> None:
    disk = FaultDisk()
    for base_offset in (0, 5, 10, 15):
        put(disk, base_offset)
    put(disk, 5, ".swap", records=10)
    assert settle(disk) == sorted(name(base_offset, kind) for base_offset in (0, 5, 15) for kind in KINDS)
    assert [content(disk, base_offset, "index") for base_offset in (0, 5, 15)] == ["0.old", "5.swap", "15.old"]
    assert disk.size(f"{HERE}/{name(5, 'log')}") > disk.size(f"{HERE}/{name(0, 'log')}")


def test_what_was_renamed_already_is_new() -> None:
    disk = FaultDisk()
    put(disk, 15)
    put(disk, 5, ".swap", records=10, kinds=("log", "timeindex"))
    put(disk, 5, "", kinds=("txnindex", "index"))
    assert settle(disk) == sorted(name(base_offset, kind) for base_offset in (5, 15) for kind in KINDS)
    assert content(disk, 5, "txnindex") == "5.old"
    assert content(disk, 5, "timeindex") == "5.swap"


def test_a_damaged_swap_replaces_what_it_has() -> None:
    disk = FaultDisk()
    for base_offset in (0, 5, 10):
        put(disk, base_offset)
    put(disk, 0, ".swap", records=10)
    file = disk.open(f"{HERE}/{name(0, 'log', '.swap')}")
    file.write(b"torn", file.size())
    assert settle(disk) == sorted(name(base_offset, kind) for base_offset in (0, 10) for kind in KINDS)


def test_the_log_comes_last() -> None:
    disk = FaultDisk()
    put(disk, 0, ".cleaned")
    for step in (begin_swap, end_swap):
        renamed: list[str] = []
        rename = disk.rename

        def note(old: str, new: str, seen: list[str] = renamed, do: object = rename) -> None:
            seen.append(new)
            assert callable(do)
            do(old, new)

        disk.rename = note  # type: ignore[method-assign]
        step(disk, HERE, 0)
        disk.rename = rename  # type: ignore[method-assign]
        assert len(renamed) == 4
        assert ".log" in renamed[-1]
    assert disk.list(HERE) == sorted(name(0, kind) for kind in KINDS)


def test_a_segment_that_is_not_wanted_leaves_nothing() -> None:
    disk = FaultDisk()
    put(disk, 0)
    put(disk, 0, ".cleaned", kinds=("log", "txnindex"))
    put(disk, 0, ".swap", kinds=("index",))
    abandon(disk, HERE, 0)
    assert disk.list(HERE) == sorted(name(0, kind) for kind in KINDS)
