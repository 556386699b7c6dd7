"""Messages to bytes and back, by functions compiled for each message and version when they are first needed."""

import struct
from collections.abc import Sized
from itertools import groupby
from typing import TypeVar

from ottla.wire.decoding import Decoder, compile_decoder
from ottla.wire.encoding import Encoder, compile_encoder
from ottla.wire.primitives import DecodeError, EncodeError
from ottla.wire.schema import Message

M = TypeVar("M", bound=Message)

_BYTES = (bytes, bytearray, memoryview)

_decoders: dict[tuple[type[Message], int], Decoder] = {}
_encoders: dict[tuple[type[Message], int], Encoder] = {}


def decode(cls: type[M], buffer: memoryview | bytes, version: int, position: int = 0) -> tuple[M, int]:
    """The message that starts at a position, and the position after it. Record batches are views of the buffer."""
    decoder = _decoders.get((cls, version))
    if decoder is None:
        cls.check_version(version)
        decoder = _decoders[cls, version] = compile_decoder(cls, version)
    try:
        return decoder(memoryview(buffer), position)
    except (IndexError, struct.error):
        raise DecodeError(f"{cls.__name__} v{version} ends too early") from None
    except UnicodeDecodeError as error:
        raise DecodeError(f"{cls.__name__} v{version} has a string that is not UTF-8: {error.reason}") from None


def encode(message: Message, version: int) -> bytes:
    """The message as bytes. One whose record batches are file slices needs `encode_parts`."""
    return b"".join(encode_pieces(message, version))  # type: ignore[arg-type]


def encode_parts(message: Message, version: int) -> list[bytes | Sized]:
    """The message in pieces: file slices among its record batches as they are, all that lies between them as bytes."""
    return merge_bytes(encode_pieces(message, version))


def encode_pieces(message: Message, version: int) -> list[Sized]:
    """The message in the pieces that the encoder made, for whoever joins them with more."""
    cls = type(message)
    encoder = _encoders.get((cls, version))
    if encoder is None:
        cls.check_version(version, EncodeError)
        encoder = _encoders[cls, version] = compile_encoder(cls, version)
    try:
        return encoder(message)
    except struct.error as error:
        raise EncodeError(f"{cls.__name__} v{version} has a value that does not fit its field: {error}") from None
    except UnicodeEncodeError as error:
        raise EncodeError(f"{cls.__name__} v{version} has a string that is not text: {error.reason}") from None


def merge_bytes(parts: list[Sized]) -> list[bytes | Sized]:
    """Join neighbouring bytes. Nearly always that is all of them, which one call finds out and does."""
    try:
        return [b"".join(parts)]  # type: ignore[arg-type]
    except TypeError:
        pass
    merged: list[bytes | Sized] = []
    for is_bytes, run in groupby(parts, key=_is_bytes):
        neighbours = list(run)
        merged += [b"".join(neighbours)] if is_bytes else neighbours  # type: ignore[arg-type]
    return merged


def _is_bytes(part: Sized) -> bool:
    return isinstance(part, _BYTES)
