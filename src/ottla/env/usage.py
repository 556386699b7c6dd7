"""What the watchdog of the event loop wants to know about the loop's thread."""

from typing import Protocol


class Usage(Protocol):
    def cpu_time(self) -> float:
        """Seconds of CPU time. Any thread may ask."""

    def own_cpu_time(self) -> float:
        """The same clock. Only the watched thread may ask."""

    def sleeps(self) -> bool:
        """Whether the thread is neither running nor waiting for a CPU. True if the system cannot tell."""
