"""Reads decoded requests, and builds responses with an error for all APIs and versions, from their schemas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ottla.model import ZERO_TOPIC_ID
from ottla.wire.schema import Array, Blob, Field, Fixed, Struct, Text

if TYPE_CHECKING:
    from ottla.model import TopicId
    from ottla.wire.schema import Response

_ERROR_CODES = ("error_code", "partition_error_code")
_MESSAGE = "this error was injected by a test"

_SOURCES: dict[str, tuple[str, ...]] = {
    "coordinators": ("coordinator_keys",),
    "partition_responses": ("partition_data",),
    "partition_result": ("partitions",),
    "partitions": ("partitions", "partition_indexes"),
    "replica_election_results": ("topic_partitions",),
    "responses": ("topics", "topic_data", "topic_names", "resources"),
    "results": ("resources", "topics", "groups_names", "dirs"),
    "results_by_partition": ("partitions",),
    "results_by_topic_v3_and_below": ("v3_and_below_topics",),
    "results_by_transaction": ("transactions",),
    "topic_results": ("topics",),
    "transaction_states": ("transactional_ids",),
}
"""The lists of a response that answer a list of the request under another name."""

_KEYS = {"partition_index": ("partition_index", "partition"), "topic_name": ("name",)}
"""The fields that identify an answer, where the request has another name for them."""

_RESOURCE_IS_TOPIC = 2


def error_response(request_type: type[Struct], request: Any, response_type: type[Response], version: int) -> Response:
    """A response that answers every item of the request, for an error. The caller sets the code in its places.

    Fields without an equivalent in the request are unset.
    """
    response = _fill(response_type, _Source(request_type, request, version), version, is_item=False)
    assert isinstance(response, response_type)
    return response


def error_places(message: Struct, version: int) -> Iterator[tuple[Struct, str]]:
    """Each place of a response that has an error code: the struct, and the name of the field."""
    for field in message.__fields__:
        if not field.in_version(version):
            continue
        value = getattr(message, field.name)
        if field.name in _ERROR_CODES:
            yield message, field.name
        elif isinstance(value, list):
            for item in value:
                if isinstance(item, Struct):
                    yield from error_places(item, version)


def can_fail(response_type: type[Struct]) -> bool:
    """Whether the response has a place for an error code in any version."""
    return any(
        field.name in _ERROR_CODES or ((element := _element(field)) is not None and can_fail(element))
        for field in response_type.__fields__
    )


def topics_named(request_type: type[Struct], request: Any, version: int) -> Iterator[str | TopicId]:
    """The names and ids of the topics that a request names."""
    yield from _topics_in(_Source(request_type, request, version), request_type, "")


def _topics_in(source: _Source, struct: type[Struct], array: str) -> Iterator[str | TopicId]:
    if source.get("resource_type") == _RESOURCE_IS_TOPIC:
        yield source.get("resource_name")
    for field in struct.__fields__:
        value, element = source.get(field.name), _element(field)
        if value is None or value == ZERO_TOPIC_ID or field.name == "forgotten_topics_data":
            continue
        if _names_topic(field, array):
            yield value
        elif field.name == "topic_names":
            yield from value
        elif element is not None:
            for item in source.items(field.name):
                yield from _topics_in(item, element, field.name)


def names_topics(request_type: type[Struct], array: str = "") -> bool:
    """Whether requests of this type can name topics. `array` is the field that repeats a struct."""
    return any(
        field.name in ("resource_type", "topic_names")
        or _names_topic(field, array)
        or ((element := _element(field)) is not None and names_topics(element, field.name))
        for field in request_type.__fields__
    )


def _names_topic(field: Field, array: str) -> bool:
    return field.name in ("topic", "topic_id") or (field.name == "name" and "topic" in array)


def _element(field: Field) -> type[Struct] | None:
    """The struct that is repeated in a field."""
    element = field.type.element if isinstance(field.type, Array) else None
    return element if isinstance(element, type) else None


class _Source:
    """A part of a decoded request: an object, a tuple (for the APIs that decode into tuples), or one key in a list."""

    def __init__(self, struct: type[Struct] | None, value: Any, version: int) -> None:
        self._fields = {} if struct is None else {field.name: field for field in struct.__fields__}
        self._positions = {name: position for position, name in enumerate(self._fields)}
        self._value = value
        self._version = version

    def get(self, name: str) -> Any:
        """The value of a field; None if this version does not have the field."""
        field = self._fields.get(name)
        if field is None or not field.in_version(self._version):
            return None
        return self._value[self._positions[name]] if isinstance(self._value, tuple) else getattr(self._value, name)

    def key(self, name: str) -> Any:
        """What identifies this item. In a list of names or numbers it is the item itself."""
        if not self._fields:
            return self._value
        return next((found for each in _KEYS.get(name, (name,)) if (found := self.get(each)) is not None), None)

    def items(self, name: str) -> Iterator[_Source]:
        """The items of the request that a list of the response answers."""
        for source in _SOURCES.get(name, (name,)):
            field = self._fields.get(source)
            for item in self.get(source) or () if field is not None else ():
                part = _Source(None if field is None else _element(field), item, self._version)
                # AlterReplicaLogDirs: the request groups topics by directory, the response does not.
                yield from part.items("topics") if source == "dirs" else (part,)


def _fill(struct: type[Struct], source: _Source, version: int, *, is_item: bool) -> Struct:
    values: dict[str, Any] = {}
    for field in struct.__fields__:
        element = _element(field)
        if not field.in_version(version):
            continue
        if field.name == "error_message":
            values[field.name] = _MESSAGE
        elif element is not None and can_fail(element):
            values[field.name] = [_fill(element, item, version, is_item=True) for item in source.items(field.name)]
        elif isinstance(field.type, Blob):
            values[field.name] = b""  # No records. librdkafka cannot parse a Fetch response with null here.
        elif is_item and isinstance(field.type, (Fixed, Text)) and field.name not in _ERROR_CODES:
            _identify(values, field, source)
    return struct(**values)


def _identify(values: dict[str, Any], field: Field, source: _Source) -> None:
    """Copy a field from the item of the request. The first field of an answer is the key of a plain list."""
    is_key = not (values.keys() - {"error_message"})
    found = source.key(field.name) if is_key or source.get(field.name) is not None else None
    if found is not None:
        values[field.name] = found
    elif field.type == Fixed("q"):
        values[field.name] = -1  # Offsets, timestamps and producer ids: unknown.
