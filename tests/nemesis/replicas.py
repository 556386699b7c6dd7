"""Compares the files of all replicas of a partition after their brokers have stopped."""

from collections.abc import Sequence
from pathlib import Path


def differences(directories: Sequence[Path], whole: str) -> list[str]:
    """Compare all partitions. Replicas of the topic `whole` must have the same length. Others may lack the records that
    were written while the brokers stopped one after the other."""
    findings = []
    for partition in sorted({path.name for directory in directories for path in directory.glob("*-[0-9]*")}):
        contents = [_content(directory / partition) for directory in directories if (directory / partition).is_dir()]
        shortest = min(map(len, contents))
        if any(content[:shortest] != contents[0][:shortest] for content in contents):
            findings.append(f"the replicas of {partition} differ at byte {_first_difference(contents)}")
        elif partition.rpartition("-")[0] == whole and any(len(content) > shortest for content in contents):
            findings.append(f"the replicas of {partition} have {sorted(map(len, contents))} bytes")
    return findings


def _content(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


def _first_difference(contents: Sequence[bytes]) -> int:
    return next(at for at, values in enumerate(zip(*contents, strict=False)) if len(set(values)) > 1)
