"""The classes that declare Kafka's messages: each message once, for all its versions.

    class Topic(Struct):
        name: str = string(until=12)
        topic_id: TopicId = uuid(since=13)
        partitions: list[int] = array(int32())

A declaration lists fields in wire order, each with the versions that have it. If a version lacks a field, the encoder
leaves it out and the decoder sets its default. Classes get `__slots__` and a keyword-only `__init__` in which every
field has a default. `__init__` is compiled for the first instance, so that the import stays cheap.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, ClassVar, NamedTuple, TypeAlias, dataclass_transform

from ottla.wire.primitives import DecodeError, WireError

LATEST = 0x7FFF
"""`until` of a field that was never removed."""


class Fixed(NamedTuple):
    """A number, boolean or id of fixed width. `code` is its code in the `struct` module."""

    code: str


class Text(NamedTuple):
    """A string in UTF-8."""


class Blob(NamedTuple):
    """Bytes. With `zero_copy`, for record batches, the decoder returns a view of the received buffer, not a copy."""

    zero_copy: bool


class Array(NamedTuple):
    element: "FieldType"


FieldType: TypeAlias = "Fixed | Text | Blob | Array | type[Struct]"


class Field:
    """One field: its type, the versions that have it, and its default for other versions."""

    __slots__ = ("default", "name", "nullable_since", "since", "tag", "type", "until")
    name: str

    def __init__(
        self,
        field_type: FieldType,
        default: Any,
        *,
        since: int,
        until: int = LATEST,
        nullable_since: int | None = None,
        tag: int | None = None,
    ) -> None:
        self.type = field_type
        self.default = default
        self.since = since
        self.until = until
        self.nullable_since = nullable_since
        self.tag = tag

    def in_version(self, version: int) -> bool:
        return self.since <= version <= self.until

    def nullable(self, version: int) -> bool:
        return self.nullable_since is not None and version >= self.nullable_since

    @property
    def factory(self) -> Callable[[], Any] | None:
        """Creates the default if it is mutable, because a mutable default must not be shared."""
        return self.default if self.default is list or isinstance(self.default, StructType) else None

    def make_default(self) -> Any:
        return self.factory() if self.factory else self.default


def boolean(*, since: int = 0, until: int = LATEST, default: bool = False, tag: int | None = None) -> Any:
    return Field(Fixed("?"), default, since=since, until=until, tag=tag)


def int8(*, since: int = 0, until: int = LATEST, default: int = 0, tag: int | None = None) -> Any:
    return Field(Fixed("b"), default, since=since, until=until, tag=tag)


def int16(*, since: int = 0, until: int = LATEST, default: int = 0, tag: int | None = None) -> Any:
    return Field(Fixed("h"), default, since=since, until=until, tag=tag)


def int32(*, since: int = 0, until: int = LATEST, default: int = 0, tag: int | None = None) -> Any:
    return Field(Fixed("i"), default, since=since, until=until, tag=tag)


def int64(*, since: int = 0, until: int = LATEST, default: int = 0, tag: int | None = None) -> Any:
    return Field(Fixed("q"), default, since=since, until=until, tag=tag)


def uuid(*, since: int = 0, tag: int | None = None) -> Any:
    """Sixteen raw bytes. All zero means no id."""
    return Field(Fixed("16s"), bytes(16), since=since, tag=tag)


def string(
    *,
    since: int = 0,
    until: int = LATEST,
    nullable_since: int | None = None,
    default: str | None = "",
    tag: int | None = None,
) -> Any:
    return Field(Text(), default, since=since, until=until, nullable_since=nullable_since, tag=tag)


def binary(*, since: int = 0, nullable_since: int | None = None, default: bytes | None = b"") -> Any:
    return Field(Blob(zero_copy=False), default, since=since, nullable_since=nullable_since)


def record_batches() -> Any:
    """Record batches, passed through unchanged. Decoded to a view; encoded from a view, bytes or a file slice."""
    return Field(Blob(zero_copy=True), None, since=0, nullable_since=0)


def array(
    element: "Field | type[Struct]",
    *,
    since: int = 0,
    until: int = LATEST,
    nullable_since: int | None = None,
    default: type[list[Any]] | None = list,
    tag: int | None = None,
) -> Any:
    element_type = element.type if isinstance(element, Field) else element
    return Field(Array(element_type), default, since=since, until=until, nullable_since=nullable_since, tag=tag)


def struct(fields: "type[Struct]", *, since: int = 0, tag: int | None = None) -> Any:
    """A nested struct. In its default, all fields have their defaults."""
    return Field(fields, fields, since=since, tag=tag)


def nullable_struct(fields: "type[Struct]") -> Any:
    return Field(fields, None, since=0, nullable_since=0)


@dataclass_transform(kw_only_default=True)
class StructType(type):
    """Turns declared fields into slots and keeps their declarations in `__fields__`, in wire order."""

    __fields__: tuple[Field, ...]

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **keywords: Any) -> "StructType":
        declared = {key: value for key, value in namespace.items() if isinstance(value, Field)}
        for key, field in declared.items():
            field.name = key
            del namespace[key]
        namespace["__slots__"] = tuple(declared)
        namespace["__fields__"] = tuple(declared.values())
        return super().__new__(mcs, name, bases, namespace, **keywords)


class Struct(metaclass=StructType):
    """A group of fields: a message, or a part of one."""

    __fields__: ClassVar[tuple[Field, ...]]

    def __init__(self, **values: Any) -> None:
        cls = type(self)
        cls.__init__ = _compile_init(cls)  # type: ignore[method-assign]
        cls.__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, field.name) == getattr(other, field.name) for field in self.__fields__)

    def __repr__(self) -> str:
        values = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in self.__fields__)
        return f"{type(self).__name__}({values})"


def _compile_init(cls: type[Struct]) -> Callable[..., None]:
    unset = object()
    scope: dict[str, Any] = {"unset": unset}
    parameters, body = [], ["pass"]
    for field in cls.__fields__:
        name, factory = field.name, field.factory
        scope[f"default_{name}"] = unset if factory else field.default
        scope[f"make_{name}"] = factory
        parameters.append(f"{name}=default_{name}")
        body.append(
            f"self.{name} = make_{name}() if {name} is unset else {name}" if factory else f"self.{name} = {name}"
        )
    star = "*, " if parameters else ""
    source = f"def __init__(self, {star}{', '.join(parameters)}):\n  " + "\n  ".join(body)
    exec(compile(source, f"<{cls.__name__}.__init__>", "exec"), scope)
    init: Callable[..., None] = scope["__init__"]
    return init


class Message(Struct):
    """A struct with versions."""

    min_version: ClassVar[int]
    max_version: ClassVar[int]
    flexible_since: ClassVar[int | None]

    def __init_subclass__(
        cls, *, versions: tuple[int, int] | None = None, flexible: int | None = None, **keywords: Any
    ) -> None:
        super().__init_subclass__(**keywords)
        if versions is not None:
            cls.min_version, cls.max_version = versions
            cls.flexible_since = flexible

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        return cls.flexible_since is not None and version >= cls.flexible_since

    @classmethod
    def check_version(cls, version: int, error: type[WireError] = DecodeError) -> None:
        if not cls.min_version <= version <= cls.max_version:
            raise error(f"{cls.__name__} has versions {cls.min_version} to {cls.max_version}, not {version}")


class Api(NamedTuple):
    """An API's key and versions. Its request and response classes are imported at their first use."""

    key: int
    name: str
    min_version: int
    max_version: int
    flexible_since: int | None
    """The first version with compact lengths and tagged fields (KIP-482), in the body and in the headers."""

    def is_flexible(self, version: int) -> bool:
        return self.flexible_since is not None and version >= self.flexible_since

    @property
    def request(self) -> type["Request"]:
        request: type[Request] = self._message("Request")
        return request

    @property
    def response(self) -> type["Response"]:
        response: type[Response] = self._message("Response")
        return response

    def _message(self, direction: str) -> Any:
        module = "".join("_" + letter.lower() if letter.isupper() else letter for letter in self.name)[1:]
        return getattr(import_module(f"ottla.wire.api.{module}"), self.name + direction)


class ApiMessage(Message):
    """A request or a response: its versions are those of its API."""

    api_key: ClassVar[int]

    def __init_subclass__(cls, *, api: Api | None = None, **keywords: Any) -> None:
        if api is None:
            super().__init_subclass__(**keywords)
        else:
            super().__init_subclass__(versions=(api.min_version, api.max_version), flexible=api.flexible_since)
            cls.api_key = api.key


class Request(ApiMessage):
    pass


class Response(ApiMessage):
    pass
