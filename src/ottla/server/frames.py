"""Cuts the byte stream of one connection into frames: a 4-byte length, then that many bytes. No sockets here."""

import struct

from ottla.server.buffers import BLOCK_SIZE, Buffers
from ottla.server.misdirected import describe_misdirected

_LENGTH = struct.Struct(">i")
_unpack_length = _LENGTH.unpack_from
_SMALL = 64 * 1024
"""A frame up to this size is not worth a block."""


class FrameError(ValueError):
    """The stream is not made of frames this broker accepts; only closing the connection helps."""


class MisdirectedError(FrameError):
    """The first bytes are those of another protocol."""


class FrameReader:
    """Frames are views into the buffer that received them, so they are valid until the next `settle`.

    Bytes land in a scratch buffer that all connections share; only a connection in the middle of a frame owns a
    buffer: of the frame's size, but beyond a block it grows with what has arrived and not with what the peer claims.
    """

    __slots__ = ("_buffers", "_data", "_limit", "_own", "filled", "position")

    def __init__(self, buffers: Buffers, limit: int) -> None:
        self._buffers = buffers
        self._limit = limit
        self._data = buffers.scratch
        """The buffer that receives: the scratch buffer, or the connection's own."""
        self._own: memoryview | None = None
        self.filled = 0
        """Where the received bytes end in the buffer. Whoever receives adds to it."""
        self.position = 0
        """Where the bytes begin that were not taken yet."""

    def buffer(self) -> memoryview:
        own = self._own
        if own is None:
            return self._data
        if self.filled == len(own):
            self._move()
        return self._data[self.filled :]

    @property
    def buffered(self) -> int:
        """Bytes that have arrived and were not taken yet."""
        return self.filled - self.position

    def next_frame(self) -> memoryview | None:
        """The next whole frame without its length, or None until more bytes arrive."""
        position, filled = self.position, self.filled
        start = position + 4
        if filled < start:
            return None
        data = self._data
        (size,) = _unpack_length(data, position)
        if not 0 <= size <= self._limit:
            if misdirected := describe_misdirected(data[position:filled]):
                raise MisdirectedError(misdirected)
            raise FrameError(f"a frame of {size} bytes; the limit is {self._limit} (socket.request.max.bytes)")
        end = start + size
        if filled < end:
            return None
        self.position = end
        return data[start:end]

    def settle(self) -> bool:
        """Call when the frames taken so far are done with: frees the scratch buffer for the next connection.

        Returns whether bytes are left that were not taken.
        """
        if self.filled > self.position:
            if self._own is None:
                self._move()
            return True
        if self._own is not None:
            self._buffers.give_back(self._own)
            self._own, self._data = None, self._buffers.scratch
        self.filled = self.position = 0
        return False

    def _move(self) -> None:
        """Take what is left to a buffer with room for more. One that only waits to be served stays where it is."""
        data, left = self._data, self.buffered
        room = self._room_for(data, left)
        room[:left] = data[self.position : self.filled]
        if self._own is not None:
            self._buffers.give_back(self._own)
        self._own = self._data = room
        self.filled, self.position = left, 0

    def _room_for(self, data: memoryview, left: int) -> memoryview:
        needed = 4
        if left >= 4:
            needed += max(0, min(_LENGTH.unpack_from(data, self.position)[0], self._limit))
        needed = max(needed, left + 1)
        if needed <= _SMALL:
            return memoryview(bytearray(needed))
        if left < BLOCK_SIZE:
            return self._buffers.borrow()
        return memoryview(bytearray(min(needed, 2 * left)))
