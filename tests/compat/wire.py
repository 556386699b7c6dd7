"""One connection that speaks any API in any version, encoded by kio: what no client library would ever send."""

import dataclasses
import io
import itertools
import socket
import struct
import types
import typing
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kio.index import load_entity_schema
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

TIMEOUT = 60.0


class Connection:
    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), TIMEOUT)
        self._correlation_ids = itertools.count(1)

    def close(self) -> None:
        self._socket.close()

    def call(self, api: str, version: int, **fields: Any) -> Any:
        """Send a request made of plain values and return the decoded reply."""
        self.send(api, version, **fields)
        return self.receive(api, version)

    def send(self, api: str, version: int, **fields: Any) -> None:
        """Nested entities may be given as mappings and sequences; what is left out takes the protocol's default."""
        schema: Any = load_entity_schema(api, version, EntityType.request)
        header_schema = schema.__header_schema__
        header = {
            "request_api_key": schema.__api_key__,
            "request_api_version": version,
            "correlation_id": next(self._correlation_ids),
            "client_id": "wire",
        }
        names = {field.name for field in dataclasses.fields(header_schema)}
        frame = io.BytesIO()
        entity_writer(header_schema)(frame, header_schema(**{k: v for k, v in header.items() if k in names}))
        entity_writer(schema)(frame, build(schema, fields))
        self.send_frame(frame.getvalue())

    def receive(self, api: str, version: int) -> Any:
        schema: Any = load_entity_schema(api, version, EntityType.response)
        frame = self.receive_frame()
        _, size = entity_reader(schema.__header_schema__)(frame, 0)
        reply, used = entity_reader(schema)(frame, size)
        assert size + used == len(frame), f"{len(frame) - size - used} bytes left over after the {api} reply"
        return reply

    def send_frame(self, frame: bytes) -> None:
        self.send_bytes(struct.pack(">i", len(frame)) + frame)

    def send_bytes(self, data: bytes) -> None:
        """Whatever a test wants on the wire, framed or not."""
        self._socket.sendall(data)

    def receive_frame(self) -> bytes:
        (size,) = struct.unpack(">i", self._receive_exactly(4))
        return self._receive_exactly(size)

    def _receive_exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            chunk = self._socket.recv(size - len(data))
            if not chunk:
                raise ConnectionError("the broker closed the connection")
            data += chunk
        return bytes(data)


@contextmanager
def connect(bootstrap: str) -> Iterator[Connection]:
    connection = Connection(bootstrap)
    try:
        yield connection
    finally:
        connection.close()


def build(schema: Any, values: Mapping[str, Any]) -> Any:
    """A kio entity from plain values."""
    hints = typing.get_type_hints(schema)
    fields = {field.name: field for field in dataclasses.fields(schema)}
    unknown = values.keys() - fields.keys()
    assert not unknown, f"{schema.__name__} v{schema.__version__} has no {sorted(unknown)}, only {sorted(fields)}"
    given = {name: _convert(hints[name], value) for name, value in values.items()}
    required = {name for name, field in fields.items() if field.default is dataclasses.MISSING}
    return schema(**given, **{name: _empty(hints[name]) for name in required - given.keys()})


def _empty(hint: Any) -> Any:
    """kio knows only the defaults that a schema spells out; the protocol's own are null, zero, false and empty."""
    if isinstance(hint, types.UnionType):
        return None
    return () if typing.get_origin(hint) is tuple else hint(0)


def _convert(hint: Any, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(hint, types.UnionType):
        [hint] = [choice for choice in typing.get_args(hint) if choice is not type(None)]
    if typing.get_origin(hint) is tuple:
        return tuple(_convert(typing.get_args(hint)[0], item) for item in value)
    return build(hint, value) if dataclasses.is_dataclass(hint) else value
