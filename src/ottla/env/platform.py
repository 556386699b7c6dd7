"""Chooses the forms of system calls once, at import (decision 16).

Linux uses the calls that only Linux has. Every other system uses the portable forms, and so does Linux with
OTTLA_PORTABLE=1. `linux` and `portable` define the same names.
"""

import os
import sys
from typing import Final

PORTABLE: Final = sys.platform != "linux" or os.environ.get("OTTLA_PORTABLE") == "1"

if sys.platform == "linux" and not PORTABLE:
    from ottla.env.linux import (
        MSG_MORE,
        boot_id,
        end_with_parent,
        fdatasync,
        fsync,
        resident_memory,
        sendfile,
        thread_usage,
    )
else:
    from ottla.env.portable import (
        MSG_MORE,
        boot_id,
        end_with_parent,
        fdatasync,
        fsync,
        resident_memory,
        sendfile,
        thread_usage,
    )

__all__ = [
    "MSG_MORE",
    "PORTABLE",
    "boot_id",
    "end_with_parent",
    "fdatasync",
    "fsync",
    "resident_memory",
    "sendfile",
    "thread_usage",
]
