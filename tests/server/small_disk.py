"""A disk that a test can fill."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(path: Path, size: str) -> Iterator[Path]:
    """A separate file system, which only root can mount."""
    path.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)], capture_output=True)
    if mount.returncode:
        pytest.skip("no file system can be mounted here: " + mount.stderr.decode().strip())
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def fill(file: Path) -> None:
    """Fill the disk to its last byte."""
    with file.open("wb", buffering=0) as ballast:
        for size in (1 << 16, 1):
            try:
                while True:
                    ballast.write(bytes(size))
            except OSError:
                continue
