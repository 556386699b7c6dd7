"""Kafka's wire protocol without I/O: bytes to messages, and messages to bytes.

`schema` has the classes with which `api/` declares every message once for all its versions. `codec` compiles a message
and a version into straight-line Python. `reference` does the same as `codec`, slowly and simply, as a definition for
tests. `framing` adds lengths and headers to the bodies.
"""

from ottla.wire.primitives import DecodeError, EncodeError, WireError

__all__ = ["DecodeError", "EncodeError", "WireError"]
