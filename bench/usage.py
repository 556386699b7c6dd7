"""Resource usage of a process, from the kernel's accounting."""

import os
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_KIB = 1024


@dataclass(frozen=True, slots=True)
class Usage:
    cpu_seconds: float
    """User and system time of all threads, including ended ones."""
    rss_bytes: int
    peak_rss_bytes: int
    open_files: int


def usage_of(pid: int) -> Usage:
    process = Path("/proc") / str(pid)
    status = parse_status((process / "status").read_text())
    return Usage(
        cpu_seconds=cpu_seconds_of(pid),
        rss_bytes=status["VmRSS"] * _KIB,
        peak_rss_bytes=status["VmHWM"] * _KIB,
        open_files=len(list((process / "fd").iterdir())),
    )


def cpu_seconds_of(pid: int) -> float:
    return sum(split_cpu_seconds_of(pid))


def tree_cpu_seconds_of(pid: int) -> float:
    """CPU time of a process and its descendants, including ended ones that were waited for."""
    parents: dict[int, list[int]] = {}
    stats: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                stat = (entry / "stat").read_text()
            except OSError:  # The process has just ended.
                continue
            stats[int(entry.name)] = stat
            parents.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    total, waiting = 0.0, [pid]
    while waiting:
        each = waiting.pop()
        waiting += parents.get(each, [])
        if each in stats:
            total += sum(parse_cpu_seconds(stats[each], _TICKS)) + parse_children_seconds(stats[each], _TICKS)
    return total


def split_cpu_seconds_of(pid: int) -> tuple[float, float]:
    """User and system time."""
    return parse_cpu_seconds((Path("/proc") / str(pid) / "stat").read_text(), _TICKS)


def parse_cpu_seconds(stat: str, ticks: int) -> tuple[float, float]:
    """User and system time, fields 14 and 15.

    The command in field 2 may hold spaces and parentheses, so count after the last one.
    """
    fields = stat.rpartition(")")[2].split()
    return int(fields[11]) / ticks, int(fields[12]) / ticks


def parse_children_seconds(stat: str, ticks: int) -> float:
    """The time of children that were waited for, fields 16 and 17."""
    fields = stat.rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / ticks


def parse_status(text: str) -> dict[str, int]:
    """Parse the lines with a size in kB."""
    sizes = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        words = value.split()
        if len(words) == 2 and words[1] == "kB":
            sizes[name] = int(words[0])
    return sizes
