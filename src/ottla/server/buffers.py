"""Receive buffers of client connections."""

import mmap

BLOCK_SIZE = (1 << 20) + (64 << 10)
"""Enough for the largest request that clients send by default (`max.request.size`, 1 MB) with its headers."""

_SCRATCH_SIZE = 1 << 20
_KEPT_BLOCKS = 8
"""Number of free blocks to keep for the next large requests. New memory costs more than the copy into it, because the
kernel must allocate and clear each page."""


class Buffers:
    """One scratch buffer that all connections share, and blocks for connections that are receiving a large request."""

    __slots__ = ("_free", "scratch")

    def __init__(self) -> None:
        self.scratch = memoryview(bytearray(_SCRATCH_SIZE))
        self._free: list[memoryview] = []

    def borrow(self) -> memoryview:
        """Take a block. A new block takes no memory until it is written to, whatever size a peer announces."""
        return self._free.pop() if self._free else memoryview(mmap.mmap(-1, BLOCK_SIZE))

    def give_back(self, buffer: memoryview) -> None:
        """Return a block. The buffer and views of it must not be used afterwards. Buffers of other sizes are freed."""
        if len(buffer) == BLOCK_SIZE and len(self._free) < _KEPT_BLOCKS:
            self._free.append(buffer)
