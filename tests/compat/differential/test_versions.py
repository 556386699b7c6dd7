"""Which versions of each API both brokers serve, and what they do with a version that they do not serve."""

import struct
from collections.abc import Iterator

import pytest

from ottla.handlers.registry import HANDLERS
from ottla.wire.api import API_VERSIONS
from ottla.wire.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.compat.differential.brokers import Pair, missing
from tests.server.wire_client import WireClient, frame

pytestmark = [
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
    pytest.mark.xdist_group("differential"),
    pytest.mark.timeout(600),
]


def ranges(bootstrap: str) -> dict[int, tuple[int, int]]:
    with WireClient(bootstrap) as client:
        reply = client.call(ApiVersionsRequest(), 0, ApiVersionsResponse)
    return {api.api_key: (api.min_version, api.max_version) for api in reply.api_keys}


def is_answered(bootstrap: str, api_key: int, version: int) -> bool:
    """Whether a request with nothing but a header, with no tagged fields, gets an answer."""
    header = struct.pack(">hhihB", api_key, version, 7, -1, 0)
    with WireClient(bootstrap) as client:
        client.socket.sendall(frame(header))
        return not client.is_hung_up_on()


def unserved() -> Iterator[tuple[int, int]]:
    for key, served in HANDLERS.items():
        yield from ((key, served.api.max_version + 1), (key, -1), (key, 32_767))
    yield from ((-1, 0), (999, 0))


def test_ottla_serves_apache_kafkas_versions(pair: Pair) -> None:
    theirs, ours = ranges(pair.kafka), ranges(pair.ottla)
    assert ours == {key: theirs[key] for key in ours}


def test_of_other_versions_only_those_of_api_versions_are_answered(pair: Pair) -> None:
    for key, version in unserved():
        answered = is_answered(pair.kafka, key, version)
        assert is_answered(pair.ottla, key, version) == answered, f"API {key}, version {version}"
        assert answered == (key == API_VERSIONS.key)
