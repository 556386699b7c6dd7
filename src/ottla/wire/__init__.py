"""Kafka's wire protocol without any input or output: bytes in, messages out, and back.

`schema` is the vocabulary in which `api/` declares every message once for all its versions; `codec` compiles a
message and a version into straight-line Python; `reference` is its slow twin, plain enough to be read as the
definition; `framing` puts lengths and headers around the bodies.
"""

from ottla.wire.primitives import DecodeError, EncodeError, WireError

__all__ = ["DecodeError", "EncodeError", "WireError"]
