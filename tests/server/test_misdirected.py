import struct

import pytest

from ottla.server.misdirected import describe_misdirected
from ottla.wire.api import API_VERSIONS
from ottla.wire.framing import request_header
from tests.server.wire_client import frame

TLS = "a TLS handshake on a listener without TLS"
HTTP = "an HTTP request on a Kafka listener"
HTTP2 = "an HTTP/2 request on a Kafka listener"
SSH = "an SSH client on a Kafka listener"

CLIENT_HELLO = bytes.fromhex("1603010200010001fc0303") + bytes(range(200))


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "HEAD", "OPTIONS", "CONNECT", "DELETE", "PATCH", "TRACE"])
def test_http_methods(method: str) -> None:
    assert describe_misdirected(f"{method} /metrics HTTP/1.1\r\nHost: broker\r\n\r\n".encode()) == HTTP


@pytest.mark.parametrize("minor", [0, 1, 2, 3, 4])
def test_tls_of_every_version(minor: int) -> None:
    assert describe_misdirected(bytes([0x16, 3, minor]) + CLIENT_HELLO[3:]) == TLS


def test_http2_and_ssh() -> None:
    assert describe_misdirected(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") == HTTP2
    assert describe_misdirected(b"SSH-2.0-OpenSSH_9.6\r\n") == SSH


@pytest.mark.parametrize(
    "whole, description",
    [(CLIENT_HELLO, TLS), (b"OPTIONS * HTTP/1.1", HTTP), (b"PRI * HTTP/2.0", HTTP2), (b"SSH-2.0-x", SSH)],
    ids=["TLS", "HTTP", "HTTP/2", "SSH"],
)
def test_the_first_four_bytes_are_enough_and_fewer_prove_nothing(whole: bytes, description: str) -> None:
    for size in range(len(whole)):
        expected = description if size >= 4 else None
        assert describe_misdirected(whole[:size]) == expected
        assert describe_misdirected(memoryview(whole)[:size]) == expected


@pytest.mark.parametrize(
    "data",
    [
        frame(request_header(API_VERSIONS.key, 3, 0, "client")),
        struct.pack(">i", 104857600),
        struct.pack(">i", 2**31 - 1),
        struct.pack(">i", -1),
        b"\x17\x03\x03\x00",
        b"get / HTTP/1.1",
        b"GETX",
        b"",
    ],
    ids=[
        "a request",
        "largest frame",
        "2 GB",
        "negative",
        "TLS without a handshake",
        "lower case",
        "a word",
        "nothing",
    ],
)
def test_everything_else_is_not_named(data: bytes) -> None:
    assert describe_misdirected(data) is None
