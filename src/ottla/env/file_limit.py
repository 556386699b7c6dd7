"""How many files this process may open. A broker needs a file per segment and a socket per client."""

import resource

BOUND_OF_MACOS = 10_240
"""macOS often has no hard limit, but refuses a soft limit above this."""


def file_limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return BOUND_OF_MACOS if soft == resource.RLIM_INFINITY else soft


def raise_file_limit() -> None:
    """Raise the soft limit as far as the system allows. It is often 1024, on macOS 256."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft in (hard, resource.RLIM_INFINITY):
        return
    for limit in (hard, BOUND_OF_MACOS):
        if limit == hard or limit > soft:
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            except (OSError, ValueError):
                continue
            return
