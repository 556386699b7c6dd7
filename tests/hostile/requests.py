"""Random well-formed requests of every API and version that is served, drawn from their schemas."""

import random
from typing import Any, NamedTuple

from ottla.handlers.registry import HANDLERS
from ottla.wire import api as apis
from ottla.wire import codec
from ottla.wire.framing import request_header
from ottla.wire.schema import Api, Array, Blob, Field, FieldType, Fixed, Request, Struct, Text
from tests.hostile.batches import Batches, Prebuilt
from tests.hostile.values import DRAWS, DRAWS_OF, EXTREMES, GROUPS, ODD_NAMES, Draw, Scene, World
from tests.server.wire_client import frame

CORRELATION_AT = 8
"""Where the correlation id stands in a frame, after its length, key and version."""

_SLOW = {
    apis.CREATE_TOPICS.key,
    apis.DELETE_TOPICS.key,
    apis.CREATE_PARTITIONS.key,
    apis.ALTER_CONFIGS.key,
    apis.INCREMENTAL_ALTER_CONFIGS.key,
    apis.ELECT_LEADERS.key,
    apis.ALTER_PARTITION_REASSIGNMENTS.key,
}
"""Each of these is a commit in the store, or several."""
_FREQUENT = {apis.PRODUCE.key, apis.FETCH.key, apis.OFFSET_COMMIT.key, apis.JOIN_GROUP.key, apis.SYNC_GROUP.key}

_CLIENT_IDS = ("client", "client", "", None, "é", "line\nbreak", "c" * 300)
_BIG_CHANCE = 1 / 1500
_BIG_BYTES = (1 << 20) - 10_000
"""Most APIs take requests of up to a megabyte."""
_REUSED = 0.75
"""The part of the requests that were sent before, perhaps on another connection: making one takes long."""
_POOL = 400


class Template(NamedTuple):
    """An encoded request, whole but for its correlation id."""

    api: Api
    version: int
    request: Request
    data: bytearray
    expects_reply: bool


class Requests:
    """An endless sequence of requests that a seed decides, but for what `world` has learned from replies."""

    def __init__(self, seed: str, world: World, shared: Prebuilt) -> None:
        self._rng = random.Random(seed)
        self._world = world
        self._batches = Batches(self._rng, shared)
        self._served = [served.api for served in HANDLERS.values()]
        self._weights = [0.15 if api.key in _SLOW else 3.0 if api.key in _FREQUENT else 1.0 for api in self._served]
        self._pool: list[Template] = []

    def draw(self) -> Template:
        rng = self._rng
        if len(self._pool) == _POOL and rng.random() < _REUSED:
            return rng.choice(self._pool)
        template = self._new()
        if len(template.data) > 10_000:
            return template  # Once is enough.
        if len(self._pool) < _POOL:
            self._pool.append(template)
        else:
            self._pool[rng.randrange(_POOL)] = template
        return template

    def _new(self) -> Template:
        rng = self._rng
        (api,) = rng.choices(self._served, self._weights)
        version = rng.randint(api.min_version, api.max_version)
        scene = Scene(rng, self._world, self._batches)
        request = _Writer(scene, version).struct(api.request)
        assert isinstance(request, Request)
        if rng.random() < _BIG_CHANCE:
            _enlarge(rng, request, version)
        data = _encode(request, version, rng.choice(_CLIENT_IDS))
        return Template(api, version, request, bytearray(data), getattr(request, "acks", 1) != 0)


def _encode(request: Request, version: int, client_id: str | None) -> bytes:
    return frame(request_header(request.api_key, version, 0, client_id) + codec.encode(request, version))


def _enlarge(rng: random.Random, request: Request, version: int) -> None:
    """Repeat the elements of one array until the request is as large as requests may be."""
    arrays = [name for name in _array_names(request, version) if getattr(request, name)]
    if not arrays:
        return
    name = rng.choice(arrays)
    elements = getattr(request, name)
    empty = len(codec.encode(request, version))
    setattr(request, name, elements * 2)
    size = max(1, len(codec.encode(request, version)) - empty)
    setattr(request, name, elements * max(1, _BIG_BYTES // size // rng.choice((1, 10, 100))))


def _array_names(request: Request, version: int) -> list[str]:
    return [it.name for it in request.__fields__ if isinstance(it.type, Array) and it.in_version(version)]


class _Writer:
    """Fills the structs of one request."""

    def __init__(self, scene: Scene, version: int) -> None:
        self._scene = scene
        self._rng = scene.rng
        self._version = version

    def struct(self, cls: type[Struct]) -> Struct:
        version = self._version
        return cls(**{field.name: self._shared(cls, field) for field in cls.__fields__ if field.in_version(version)})

    def _shared(self, cls: type[Struct], field: Field) -> Any:
        rng = self._rng
        nullable = field.nullable(self._version)
        if nullable and rng.random() < 0.08:
            return None
        if field.tag is not None and rng.random() < 0.5:
            return field.make_default()
        draw = DRAWS_OF.get((cls.__name__, field.name)) or DRAWS.get(field.name)
        value = self._value(field.type, draw)
        return field.make_default() if value is None and not nullable else value

    def _value(self, field_type: FieldType, draw: Draw | None) -> Any:
        if isinstance(field_type, Array):
            return self._array(field_type.element, draw)
        if isinstance(field_type, type):
            return self.struct(field_type)
        if draw is not None and self._rng.random() >= self._scene.wild:
            return draw(self._scene)
        return self._any(field_type)

    def _array(self, element: FieldType, draw: Draw | None) -> list[Any]:
        rng = self._rng
        chance = rng.random()
        if chance < 0.06:
            return []
        if chance < 0.16:
            return [self._value(element, draw)] * rng.choice((2, 3, 10, 50))
        count = 1 if chance < 0.7 else rng.choice((2, 2, 3, 5))
        return [value for _ in range(count) if (value := self._value(element, draw)) is not None]

    def _any(self, field_type: FieldType) -> Any:
        rng = self._rng
        match field_type:
            case Fixed(code):
                return rng.choice(EXTREMES[code])
            case Text():
                return rng.choice((*ODD_NAMES, rng.choice(GROUPS)))
            case Blob():
                return rng.choice((b"", b"\0", rng.randbytes(rng.randrange(200)), bytes(5000)))
        raise TypeError(field_type)
