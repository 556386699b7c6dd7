"""Memory that clients' bytes are received into."""

import mmap

BLOCK_SIZE = (1 << 20) + (64 << 10)
"""Holds the largest request that clients send by default (`max.request.size`, 1 MB) and what goes around it."""

_SCRATCH_SIZE = 1 << 20
_KEPT_BLOCKS = 8
"""Blocks that are kept for the next large request. New memory costs more than the copy into it: each page of it has
to be found and cleared by the kernel."""


class Buffers:
    """One scratch buffer that all connections share, and blocks for those in the middle of a large request."""

    __slots__ = ("_free", "scratch")

    def __init__(self) -> None:
        self.scratch = memoryview(bytearray(_SCRATCH_SIZE))
        self._free: list[memoryview] = []

    def borrow(self) -> memoryview:
        """A block. A new one takes no memory before it is written to, whatever a peer claims to send."""
        return self._free.pop() if self._free else memoryview(mmap.mmap(-1, BLOCK_SIZE))

    def give_back(self, buffer: memoryview) -> None:
        """Nobody may use the buffer after this, nor views of it. One that is no block is let go."""
        if len(buffer) == BLOCK_SIZE and len(self._free) < _KEPT_BLOCKS:
            self._free.append(buffer)
