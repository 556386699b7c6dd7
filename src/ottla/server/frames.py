"""Cuts the byte stream of one connection into frames: a 4-byte length, then that many bytes. No sockets here."""

import struct

_LENGTH = struct.Struct(">i")
_GROWTH = 64 * 1024


class FrameError(ValueError):
    """The stream is not made of frames this broker accepts; only closing the connection helps."""


class FrameReader:
    """Frames are views into the buffer that received them, so they are valid until the next `settle`.

    Bytes land in a scratch buffer that all connections share; only a connection in the middle of a frame owns a
    buffer, which grows with what has arrived and not with what the peer claims to send.
    """

    __slots__ = ("_filled", "_limit", "_own", "_position", "_scratch")

    def __init__(self, scratch: memoryview, limit: int) -> None:
        self._scratch = scratch
        self._limit = limit
        self._own: memoryview | None = None
        self._filled = 0
        self._position = 0

    @property
    def buffered(self) -> int:
        """Bytes that have arrived and were not taken yet."""
        return self._filled - self._position

    def buffer(self) -> memoryview:
        if self._own is None:
            return self._scratch
        if self._filled == len(self._own):
            self._move(self._own)
        return self._own[self._filled :]

    def received(self, count: int) -> None:
        self._filled += count

    def next_frame(self) -> memoryview | None:
        """The next whole frame without its length, or None until more bytes arrive."""
        start = self._position + 4
        if self._filled < start:
            return None
        data = self._scratch if self._own is None else self._own
        (size,) = _LENGTH.unpack_from(data, self._position)
        if size < 0 or size > self._limit:
            raise FrameError(f"a frame of {size} bytes; the limit is {self._limit} (socket.request.max.bytes)")
        end = start + int(size)
        if self._filled < end:
            return None
        self._position = end
        return data[start:end]

    def settle(self) -> None:
        """Call when the frames taken so far are done with: frees the scratch buffer for the next connection."""
        if self._filled == self._position:
            self._own = None
            self._filled = self._position = 0
        elif self._own is None:
            self._move(self._scratch)

    def _move(self, data: memoryview) -> None:
        """Take what is left to a buffer with room for more. One that only waits to be served stays where it is."""
        left = self._filled - self._position
        self._own = memoryview(bytearray(self._capacity(data, left)))
        self._own[:left] = data[self._position : self._filled]
        self._filled, self._position = left, 0

    def _capacity(self, data: memoryview, left: int) -> int:
        needed = 4
        if left >= 4:
            needed += max(0, min(_LENGTH.unpack_from(data, self._position)[0], self._limit))
        return max(left + 1, min(needed, max(_GROWTH, 2 * left)))
