"""Recognises clients of another protocol by their first bytes, so that the log can name the protocol."""

_HTTP_METHODS = (b"GET ", b"POST ", b"PUT ", b"HEAD ", b"OPTIONS ", b"CONNECT ", b"DELETE ", b"PATCH ", b"TRACE ")
_HTTP2_PREFACE = b"PRI * HTTP/2"
_SSH_BANNER = b"SSH-"
_TLS_HANDSHAKE = 0x16
_TLS_MAJOR_VERSION = 0x03
_SHORTEST = 4
"""Fewer bytes than a frame's length field are not enough to decide."""


def describe_misdirected(first_bytes: bytes | bytearray | memoryview) -> str | None:
    """The protocol that the client uses instead of Kafka's without TLS, or None if these bytes do not show it.

    Call it if the length of the first frame of a connection is rejected. Kafka's frames begin with a length of four
    bytes. Read as a length, the lowest of the texts below is 542 MB, and a TLS handshake is 369 MB.
    """
    start = bytes(first_bytes[: len(_HTTP2_PREFACE)])
    if len(start) < _SHORTEST:
        return None
    if start[0] == _TLS_HANDSHAKE and start[1] == _TLS_MAJOR_VERSION:
        return "a TLS handshake on a listener without TLS"
    for text, description in (
        (_HTTP2_PREFACE, "an HTTP/2 request on a Kafka listener"),
        (_SSH_BANNER, "an SSH client on a Kafka listener"),
        *((method, "an HTTP request on a Kafka listener") for method in _HTTP_METHODS),
    ):
        if start.startswith(text) or (text.startswith(start) and len(start) >= _SHORTEST):
            return description
    return None
