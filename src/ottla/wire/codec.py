"""Messages to bytes and back, by functions compiled for each message and version when they are first needed."""

import struct
from collections.abc import Sized
from typing import Any, TypeVar

from ottla.wire.decoding import Decoder, Memo, TupleDecoder, compile_decoder, compile_tuple_decoder
from ottla.wire.encoding import Encoder, compile_encoder, compile_tuple_encoder
from ottla.wire.primitives import WireError
from ottla.wire.schema import Message

M = TypeVar("M", bound=Message)

_decoders: dict[tuple[type[Message], int], Decoder] = {}
_tuple_decoders: dict[tuple[type[Message], int], TupleDecoder] = {}
_encoders: dict[tuple[type[Message], int], Encoder] = {}
_tuple_encoders: dict[tuple[type[Message], int], Encoder] = {}


def decode(
    cls: type[M], buffer: memoryview | bytes, version: int, position: int = 0, memo: Memo | None = None
) -> tuple[M, int]:
    """The message that starts at a position, and the position after it. Record batches are views of the buffer.

    `memo` is for `decode_tuples`, which can stand in the place of this.
    """
    decoder = _decoders.get((cls, version))
    if decoder is None:
        cls.check_version(version)
        decoder = _decoders[cls, version] = compile_decoder(cls, version)
    try:
        return decoder(memoryview(buffer), position)
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise _unreadable(cls, version, error) from None


def decode_tuples(cls: type[Message], buffer: memoryview, version: int, position: int, memo: Memo) -> tuple[Any, int]:
    """Like `decode`, into nested tuples: every struct is a tuple of its fields in the order of their declaration.

    `memo` must be the same list for the messages of one client, or `[None, None]`: see `decoding.Memo`.
    """
    decoder = _tuple_decoders.get((cls, version))
    if decoder is None:
        cls.check_version(version)
        decoder = _tuple_decoders[cls, version] = compile_tuple_decoder(cls, version)
    try:
        return decoder(buffer, position, memo)
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise _unreadable(cls, version, error) from None


def _unreadable(cls: type[Message], version: int, error: Exception) -> WireError:
    if isinstance(error, UnicodeDecodeError):
        return WireError(f"{cls.__name__} v{version} has a string that is not UTF-8: {error.reason}")
    return WireError(f"{cls.__name__} v{version} ends too early")


def encode(message: Message, version: int) -> bytes:
    """The message as bytes. One whose record batches are file slices needs `encode_parts`."""
    return b"".join(encode_parts(message, version))  # type: ignore[arg-type]


def encode_parts(message: Message, version: int) -> list[Sized]:
    """The message in parts: file slices among its record batches as they are, all that lies between them as bytes."""
    cls = type(message)
    encoder = _encoders.get((cls, version))
    if encoder is None:
        cls.check_version(version)
        encoder = _encoders[cls, version] = compile_encoder(cls, version)
    try:
        return encoder(message)
    except (struct.error, UnicodeEncodeError) as error:
        raise _unfit(cls, version, error) from None


def encode_tuple_parts(cls: type[Message], message: tuple[Any, ...], version: int) -> list[Sized]:
    """Like `encode_parts`, from nested tuples."""
    encoder = _tuple_encoders.get((cls, version))
    if encoder is None:
        cls.check_version(version)
        encoder = _tuple_encoders[cls, version] = compile_tuple_encoder(cls, version)
    try:
        return encoder(message)
    except (struct.error, UnicodeEncodeError) as error:
        raise _unfit(cls, version, error) from None


def _unfit(cls: type[Message], version: int, error: Exception) -> WireError:
    if isinstance(error, UnicodeEncodeError):
        return WireError(f"{cls.__name__} v{version} has a string that is not text: {error.reason}")
    return WireError(f"{cls.__name__} v{version} has a value that does not fit its field: {error}")
