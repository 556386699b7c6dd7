"""A disk that simulates a power loss before the n-th change from now on."""

from __future__ import annotations

from ottla.env.disk import Buffer
from tests.log.fault_disk import FaultDisk, FaultFile


class PowerCut(BaseException):
    """Simulates the end of the process. Not an OSError, so the code under test cannot handle it."""


class CrashingFile(FaultFile):
    _disk: CrashingDisk

    def write(self, data: Buffer, position: int) -> None:
        self._disk.step()
        super().write(data, position)

    def truncate(self, size: int) -> None:
        self._disk.step()
        super().truncate(size)

    def sync(self) -> None:
        self._disk.step()
        super().sync()


class CrashingDisk(FaultDisk):
    def __init__(self) -> None:
        super().__init__()
        self.steps_left: int | None = None
        self.steps = 0

    def step(self) -> None:
        self.steps += 1
        if self.steps_left is not None:
            if self.steps_left == 0:
                raise PowerCut
            self.steps_left -= 1

    def open(self, path: str, *, create: bool = False) -> CrashingFile:
        if create and not self.exists(path):
            self.step()
        super().open(path, create=create)
        return CrashingFile(self, self._node(path))

    def replace_bytes(self, path: str, data: bytes) -> None:
        self.step()
        super().replace_bytes(path, data)

    def rename(self, old: str, new: str) -> None:
        self.step()
        super().rename(old, new)

    def remove(self, path: str) -> None:
        if self.exists(path):
            self.step()
        super().remove(path)

    def sync_directory(self, path: str) -> None:
        self.step()
        super().sync_directory(path)
