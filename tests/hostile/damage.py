"""Bytes that are not a request: damaged ones, and those of clients of other protocols."""

import random
import struct
from collections.abc import Callable

from ottla.wire.api import API_VERSIONS
from ottla.wire.api.api_versions import ApiVersionsRequest
from tests.hostile.requests import Requests
from tests.server.wire_client import encode_request, frame

LIMIT = 104857600
"""The default of socket.request.max.bytes."""

SENTINEL_ID = 0x5EA7
SENTINEL = encode_request(ApiVersionsRequest(), API_VERSIONS.min_version, SENTINEL_ID)
"""A request that is in order. Its reply shows that all before it is done with."""

OTHER_PROTOCOLS = [
    bytes.fromhex("1603010200010001fc0303") + bytes(range(200)),
    b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"POST / HTTP/1.0\r\nContent-Length: 9999999999\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"SSH-2.0-OpenSSH_9.6\r\n",
    b"\0" * 64,
    b"\xff" * 64,
]
_LENGTHS = (-1, -(2**31), 2**31 - 1, LIMIT + 1, LIMIT, LIMIT - 1, 1 << 20, 65536, 0, 1, 7)
_WORDS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 0x80000000)


class Damage:
    """An endless sequence of damaged requests that a seed decides."""

    def __init__(self, seed: str, requests: Requests) -> None:
        self._rng = random.Random(seed)
        self._requests = requests
        self._kinds: list[Callable[[bytearray], bytes]] = [
            *([self._flip] * 6),
            *([self._overwrite] * 5),
            *([self._cut] * 4),
            *([self._splice] * 3),
            *([self._lengthen] * 2),
            self._cut_but_keep_length,
            self._wrong_length,
            self._noise,
            self._noise_after_a_header,
        ]

    def draw(self) -> bytes:
        if self._rng.random() < 0.01:
            return self._rng.choice(OTHER_PROTOCOLS)
        whole = self._requests.draw().data
        return self._rng.choice(self._kinds)(bytearray(whole))

    def _flip(self, data: bytearray) -> bytes:
        for _ in range(self._rng.choice((1, 1, 2, 4))):
            data[self._rng.randrange(4, len(data))] ^= 1 << self._rng.randrange(8)
        return bytes(data)

    def _overwrite(self, data: bytearray) -> bytes:
        at = self._rng.randrange(4, len(data))
        data[at : at + 4] = struct.pack(">I", self._rng.choice(_WORDS))
        return frame(bytes(data[4:]))

    def _cut(self, data: bytearray) -> bytes:
        return frame(bytes(data[4 : self._rng.randrange(4, len(data))]))

    def _cut_but_keep_length(self, data: bytearray) -> bytes:
        return bytes(data[: self._rng.randrange(1, len(data))])

    def _splice(self, data: bytearray) -> bytes:
        other = self._requests.draw().data
        spliced = data[4 : self._rng.randrange(4, len(data))] + other[self._rng.randrange(4, len(other)) :]
        return frame(bytes(spliced))

    def _lengthen(self, data: bytearray) -> bytes:
        at = self._rng.randrange(4, len(data))
        data[at:at] = self._rng.randbytes(self._rng.randrange(1, 40))
        return frame(bytes(data[4:]))

    def _wrong_length(self, data: bytearray) -> bytes:
        near = len(data) - 4 + self._rng.randint(-8, 8)
        return struct.pack(">i", self._rng.choice((near, near, *_LENGTHS))) + data[4:]

    def _noise(self, _: bytearray) -> bytes:
        noise = self._rng.randbytes(self._rng.randrange(1, 300))
        return noise if self._rng.random() < 0.3 else frame(noise)

    def _noise_after_a_header(self, data: bytearray) -> bytes:
        return frame(bytes(data[4:14]) + self._rng.randbytes(self._rng.randrange(1, 300)))


def ends_within_a_frame(stream: bytes | bytearray) -> bool:
    """Whether the broker will wait for more bytes after these, instead of serving or refusing all of them."""
    position = 0
    while position + 4 <= len(stream):
        (size,) = struct.unpack_from(">i", stream, position)
        if size < 0 or size > LIMIT:
            return False
        position += 4 + size
    return position != len(stream)
