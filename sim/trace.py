"""The events of a run in order: a digest to compare two runs and, optionally, the lines themselves."""

from __future__ import annotations

import hashlib
from typing import TextIO


class Trace:
    def __init__(self, out: TextIO | None = None) -> None:
        self._digest = hashlib.blake2b(digest_size=16)
        self._out = out
        self.events = 0

    def note(self, now: float, *what: object) -> None:
        self.events += 1
        line = f"{now:.6f} " + " ".join(map(str, what))
        self._digest.update(line.encode())
        if self._out is not None:
            self._out.write(line + "\n")

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()
