"""How the previous process of this broker ended, read from its log directories."""

from collections.abc import Sequence
from contextlib import suppress
from enum import Enum

from ottla.env.disk import Disk
from ottla.log.layout import BOOT_ID, CLEAN_SHUTDOWN


class Shutdown(Enum):
    CLEAN = "stopped"
    KILLED = "killed"
    """The machine has stayed up, so everything that was written is there, synced or not."""
    POWER_LOST = "power lost"
    """The machine was down, or the disk is another one: unsynced data may be lost."""


def read_previous_shutdown(disk: Disk, paths: Sequence[str], boot_id: str) -> Shutdown:
    if all(disk.exists(f"{path}/{CLEAN_SHUTDOWN}") for path in paths):
        return Shutdown.CLEAN
    noted = [disk.read_bytes(f"{path}/{BOOT_ID}") if disk.exists(f"{path}/{BOOT_ID}") else b"" for path in paths]
    return Shutdown.KILLED if boot_id and all(each == boot_id.encode() for each in noted) else Shutdown.POWER_LOST


def record_start(disk: Disk, paths: Sequence[str], boot_id: str) -> None:
    """If the boot id cannot be written, the next start assumes a loss of power."""
    for path in paths:
        with suppress(OSError):
            disk.replace_bytes(f"{path}/{BOOT_ID}", boot_id.encode())
