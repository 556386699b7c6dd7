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

    __slots__ = ("_buffers", "_filled", "_limit", "_own", "_position", "_scratch", "buffered")

    def __init__(self, buffers: Buffers, limit: int) -> None:
        self._buffers = buffers
        self._scratch = buffers.scratch
        self._limit = limit
        self._own: memoryview | None = None
        self._filled = 0
        self._position = 0
        self.buffered = 0
        """Bytes that have arrived and were not taken yet."""

    def buffer(self) -> memoryview:
        if self._own is None:
            return self._scratch
        if self._filled == len(self._own):
            self._move(self._own)
        return self._own[self._filled :]

    def received(self, count: int) -> None:
        self._filled += count
        self.buffered += count

    def next_frame(self) -> memoryview | None:
        """The next whole frame without its length, or None until more bytes arrive."""
        position, filled = self._position, self._filled
        start = position + 4
        if filled < start:
            return None
        data = self._own or self._scratch
        (size,) = _unpack_length(data, position)
        if not 0 <= size <= self._limit:
            if misdirected := describe_misdirected(data[position:filled]):
                raise MisdirectedError(misdirected)
            raise FrameError(f"a frame of {size} bytes; the limit is {self._limit} (socket.request.max.bytes)")
        end = start + size
        if filled < end:
            return None
        self._position = end
        self.buffered = filled - end
        return data[start:end]

    def settle(self) -> None:
        """Call when the frames taken so far are done with: frees the scratch buffer for the next connection."""
        if not self.buffered:
            if self._own is not None:
                self._buffers.give_back(self._own)
                self._own = None
            self._filled = self._position = 0
        elif self._own is None:
            self._move(self._scratch)

    def _move(self, data: memoryview) -> None:
        """Take what is left to a buffer with room for more. One that only waits to be served stays where it is."""
        left = self.buffered
        own = self._room_for(data, left)
        own[:left] = data[self._position : self._filled]
        if self._own is not None:
            self._buffers.give_back(self._own)
        self._own = own
        self._filled, self._position = left, 0

    def _room_for(self, data: memoryview, left: int) -> memoryview:
        needed = 4
        if left >= 4:
            needed += max(0, min(_LENGTH.unpack_from(data, self._position)[0], self._limit))
        needed = max(needed, left + 1)
        if needed <= _SMALL:
            return memoryview(bytearray(needed))
        if left < BLOCK_SIZE:
            return self._buffers.borrow()
        return memoryview(bytearray(min(needed, 2 * left)))
