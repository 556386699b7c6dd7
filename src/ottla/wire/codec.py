"""Decodes and encodes messages. The functions for each message and version are compiled at their first use."""

import struct
from collections.abc import Sized
from typing import TypeVar

from ottla.wire.decoding import Decoder, Memo, compile_decoder
from ottla.wire.encoding import Encoder, compile_encoder
from ottla.wire.primitives import DecodeError, EncodeError
from ottla.wire.schema import Message
from ottla.wire.tuple_decoding import compile_tuple_decoder
from ottla.wire.tuple_encoding import compile_tuple_encoder

M = TypeVar("M", bound=Message)

_decoders: dict[tuple[type[Message], int], Decoder] = {}
_tuple_decoders: dict[tuple[type[Message], int], Decoder] = {}
_encoders: dict[tuple[type[Message], int], Encoder] = {}
_tuple_encoders: dict[tuple[type[Message], int], Encoder] = {}

UNREADABLE = (IndexError, struct.error, UnicodeDecodeError)
"""The exceptions of decoders besides DecodeError. `unreadable` converts them."""


def decoder_of(cls: type[Message], version: int) -> Decoder:
    """The function that decodes messages into objects. It ignores its memo argument."""
    decoder = _decoders.get((cls, version))
    if decoder is None:
        cls.check_version(version)
        decoder = _decoders[cls, version] = compile_decoder(cls, version)
    return decoder


def tuple_decoder_of(cls: type[Message], version: int) -> Decoder:
    """The function that decodes messages into nested tuples, which the caller must not change. Each client needs a memo
    of its own."""
    decoder = _tuple_decoders.get((cls, version))
    if decoder is None:
        cls.check_version(version)
        decoder = _tuple_decoders[cls, version] = compile_tuple_decoder(cls, version)
    return decoder


def decode(cls: type[M], buffer: memoryview | bytes, version: int, position: int = 0) -> tuple[M, int]:
    """The message at a position, and the position after it. Record batches are views of the buffer."""
    decoder = decoder_of(cls, version)
    try:
        return decoder(memoryview(buffer), position, _NO_MEMO)
    except UNREADABLE as error:
        raise unreadable(cls, version, error) from None


_NO_MEMO: Memo = []


def unreadable(cls: type[Message], version: int, error: Exception) -> DecodeError:
    if isinstance(error, UnicodeDecodeError):
        return DecodeError(f"{cls.__name__} v{version} has a string that is not UTF-8: {error.reason}")
    return DecodeError(f"{cls.__name__} v{version} ends too early")


UNFIT = (EncodeError, struct.error, UnicodeEncodeError)
"""The exceptions of encoders for a message that the version cannot represent."""


def encoder_of(cls: type[Message], version: int) -> Encoder:
    """The function that encodes messages."""
    encoder = _encoders.get((cls, version))
    if encoder is None:
        cls.check_version(version, EncodeError)
        encoder = _encoders[cls, version] = compile_encoder(cls, version)
    return encoder


def tuple_encoder_of(cls: type[Message], version: int) -> Encoder:
    """The function that encodes messages that are nested tuples."""
    encoder = _tuple_encoders.get((cls, version))
    if encoder is None:
        cls.check_version(version, EncodeError)
        encoder = _tuple_encoders[cls, version] = compile_tuple_encoder(cls, version)
    return encoder


def encode(message: Message, version: int) -> bytes:
    """The message as bytes. A message with file slices as record batches needs `encode_parts`."""
    return b"".join(encode_parts(message, version))  # type: ignore[arg-type]


def encode_parts(message: Message, version: int) -> list[Sized]:
    """The message as a list of parts: file slices of record batches unchanged, and everything between them as bytes."""
    cls = type(message)
    encoder = encoder_of(cls, version)
    try:
        return encoder(message)
    except struct.error as error:
        raise EncodeError(f"{cls.__name__} v{version} has a value that does not fit its field: {error}") from None
    except UnicodeEncodeError as error:
        raise EncodeError(f"{cls.__name__} v{version} has a string that is not text: {error.reason}") from None
