"""Small files become large ones, whatever happens in between."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ottla.pipeline.failures import PipelineError
from ottla.pipeline.parquet import compact, repair


def write_batches(directory: Path, numbers: range) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        pq.write_table(pa.table({"n": [number, number]}), directory / f"batch-{number:08d}.0.parquet")


def visible(directory: Path) -> dict[str, list[int]]:
    """What readers see: file names and rows."""
    return {file.name: pq.read_table(file)["n"].to_pylist() for file in sorted(directory.glob("[!.]*.parquet"))}


def rows(directory: Path) -> list[int]:
    return sorted(number for numbers in visible(directory).values() for number in numbers)


def test_finished_batches_become_one_file(tmp_path: Path) -> None:
    write_batches(tmp_path, range(5))
    assert compact(tmp_path, before=4, at_least=4)
    assert visible(tmp_path) == {
        "batch-00000000-to-00000003.parquet": [0, 0, 1, 1, 2, 2, 3, 3],
        "batch-00000004.0.parquet": [4, 4],
    }
    write_batches(tmp_path, range(5, 8))
    assert compact(tmp_path, before=7, at_least=4)
    assert list(visible(tmp_path)) == ["batch-00000000-to-00000006.parquet", "batch-00000007.0.parquet"]
    assert rows(tmp_path) == sorted([*range(8), *range(8)])
    assert not list(tmp_path.glob(".*"))


def test_too_few_files_are_left_alone(tmp_path: Path) -> None:
    write_batches(tmp_path, range(3))
    assert not compact(tmp_path, before=3, at_least=4)
    assert not compact(tmp_path, before=3, at_least=None)
    assert len(visible(tmp_path)) == 3


def test_a_column_that_came_later_is_null_before(tmp_path: Path) -> None:
    write_batches(tmp_path, range(1))
    pq.write_table(pa.table({"n": [1], "m": ["x"]}), tmp_path / "batch-00000001.0.parquet")
    assert compact(tmp_path, before=2, at_least=2)
    assert pq.read_table(tmp_path / "batch-00000000-to-00000001.parquet")["m"].to_pylist() == [None, None, "x"]


@pytest.mark.parametrize("deleted", range(4))
@pytest.mark.parametrize("renamed", [False, True])
def test_a_crash_in_between_is_repaired(tmp_path: Path, deleted: int, renamed: bool) -> None:
    """After the journal was written: some files deleted, or all and the new one in place."""
    write_batches(tmp_path, range(4))
    files = sorted(tmp_path.glob("*.parquet"))
    merged = tmp_path / ".batch-00000000-to-00000003.parquet"
    pq.write_table(pa.concat_tables(map(pq.read_table, files)), merged)
    (tmp_path / ".compaction.json").write_text(
        json.dumps({"replaced": [file.name for file in files], "by": merged.name[1:]})
    )
    for file in files[: 4 if renamed else deleted]:
        file.unlink()
    if renamed:
        merged.rename(tmp_path / merged.name[1:])
    repair(tmp_path.parent)
    assert visible(tmp_path) == {"batch-00000000-to-00000003.parquet": [0, 0, 1, 1, 2, 2, 3, 3]}
    assert not list(tmp_path.glob(".*"))


def test_a_crash_before_the_journal_leaves_all_as_it_was(tmp_path: Path) -> None:
    write_batches(tmp_path, range(4))
    pq.write_table(pa.table({"n": [9]}), tmp_path / ".batch-00000000-to-00000003.parquet")
    repair(tmp_path)
    assert rows(tmp_path) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert compact(tmp_path, before=4, at_least=4)
    assert rows(tmp_path) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_columns_that_changed_their_type_are_not_mixed(tmp_path: Path) -> None:
    write_batches(tmp_path, range(1))
    pq.write_table(pa.table({"n": ["one"]}), tmp_path / "batch-00000001.0.parquet")
    with pytest.raises(PipelineError, match="have different types than before; use another path"):
        compact(tmp_path, before=2, at_least=2)
    assert len(visible(tmp_path)) == 2
