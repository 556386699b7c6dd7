"""How a broker ended the last time, as its log directories tell."""

from collections.abc import Sequence
from contextlib import suppress
from enum import Enum

from ottla.env.disk import Disk
from ottla.log.layout import BOOT_ID, CLEAN_SHUTDOWN


class Shutdown(Enum):
    CLEAN = "stopped"
    KILLED = "killed"
    """The machine has stayed up since, so what was written is there, synced or not."""
    POWER_LOST = "power lost"
    """The machine has been down, or the disk is another one: what was not synced may be gone."""


def read_previous_shutdown(disk: Disk, paths: Sequence[str], boot_id: str) -> Shutdown:
    if all(disk.exists(f"{path}/{CLEAN_SHUTDOWN}") for path in paths):
        return Shutdown.CLEAN
    noted = [disk.read_bytes(f"{path}/{BOOT_ID}") if disk.exists(f"{path}/{BOOT_ID}") else b"" for path in paths]
    return Shutdown.KILLED if boot_id and all(each == boot_id.encode() for each in noted) else Shutdown.POWER_LOST


def record_start(disk: Disk, paths: Sequence[str], boot_id: str) -> None:
    """If this cannot be written, the next start knows no better than to fear the worst."""
    for path in paths:
        with suppress(OSError):
            disk.replace_bytes(f"{path}/{BOOT_ID}", boot_id.encode())
