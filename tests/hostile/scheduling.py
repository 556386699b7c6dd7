"""How long threads waited for a processor, from Linux. A busy machine's share of a delay is not the broker's."""

from pathlib import Path


def waited(pid: int | str, *, main_thread_only: bool = False) -> float:
    """Seconds that the threads of a process were ready to run and did not run; 0 where the system does not say."""
    tasks = [Path(f"/proc/{pid}/task/{pid}")] if main_thread_only else Path(f"/proc/{pid}/task").glob("*")
    total = 0
    for task in tasks:
        try:
            total += int((task / "schedstat").read_text().split()[1])
        except (OSError, IndexError):
            continue  # The thread has ended.
    return total / 1e9
