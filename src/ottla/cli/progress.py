"""A line on standard error that shows how far a long command is. It appears only on a terminal."""

import sys
import time

from ottla.cli.output import human_bytes

FIRST_AFTER_SECONDS = 1.0
"""Short commands show no progress."""
REFRESH_SECONDS = 0.25
CHECK_EVERY = 256
"""Records between two looks at the clock."""


class Progress:
    """Counts records and bytes, and shows count and rate."""

    def __init__(self, shown: bool) -> None:
        """`shown`: whether the caller leaves the terminal to the progress line. Records on the same terminal would
        mix with it."""
        self.records = 0
        self.bytes = 0
        self._shown = shown and sys.stderr.isatty()
        self._started = time.monotonic()
        self._next = self._started + FIRST_AFTER_SECONDS
        self._visible = False

    def add(self, size: int) -> None:
        self.records += 1
        self.bytes += size
        if self._shown and self.records % CHECK_EVERY == 0:
            self.refresh()

    def refresh(self) -> None:
        now = time.monotonic()
        if not self._shown or now < self._next:
            return
        self._next = now + REFRESH_SECONDS
        self._visible = True
        sys.stderr.write(f"\r\x1b[K{self.records:,} records, {self.rate()}")
        sys.stderr.flush()

    @property
    def has_rate(self) -> bool:
        """Whether there were enough records and time for a rate to mean something."""
        return self.records >= 1000 and self._elapsed() > FIRST_AFTER_SECONDS

    def rate(self) -> str:
        elapsed = self._elapsed()
        return (
            f"{human_bytes(self.bytes)}, {self.records / elapsed:,.0f} records/s, {human_bytes(self.bytes / elapsed)}/s"
        )

    def _elapsed(self) -> float:
        return max(time.monotonic() - self._started, 1e-6)

    def clear(self) -> None:
        if self._visible:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._visible = False
