"""What there is to know about the machine."""

from pathlib import Path


def boot_id() -> str:
    """Another one each time the machine is started; empty where the system does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
