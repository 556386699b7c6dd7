"""Facts about the machine."""

from pathlib import Path


def boot_id() -> str:
    """The id of the current boot of the machine. Empty if the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
