"""Reads from the log directories how the previous process of this broker ended."""

from collections.abc import Sequence
from contextlib import suppress
from enum import Enum

from ottla.env.disk import Disk
from ottla.log.layout import BOOT_ID, CLEAN_SHUTDOWN


class Shutdown(Enum):
    CLEAN = "stopped"
    KILLED = "killed"
    """The machine was not rebooted, so all written data is there, synced or not."""
    POWER_LOST = "power lost"
    """The machine was rebooted, or the disk belongs to another machine: unsynced data may be lost."""


def read_previous_shutdown(disk: Disk, paths: Sequence[str], boot_id: str) -> Shutdown:
    if all(disk.exists(f"{path}/{CLEAN_SHUTDOWN}") for path in paths):
        return Shutdown.CLEAN
    noted = [disk.read_bytes(f"{path}/{BOOT_ID}") if disk.exists(f"{path}/{BOOT_ID}") else b"" for path in paths]
    return Shutdown.KILLED if boot_id and all(each == boot_id.encode() for each in noted) else Shutdown.POWER_LOST


def record_start(disk: Disk, paths: Sequence[str], boot_id: str) -> None:
    """Write the boot id. If that fails, the next start assumes a power loss."""
    for path in paths:
        with suppress(OSError):
            disk.replace_bytes(f"{path}/{BOOT_ID}", boot_id.encode())
