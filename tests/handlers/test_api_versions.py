"""ApiVersions: the list, and who may ask for it."""

from pathlib import Path

from ottla.errors import ErrorCode
from ottla.wire.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.handlers.test_registry import KAFKA
from tests.server.worlds import asynchronous, running


@asynchronous
async def test_the_list_is_the_registry(tmp_path: Path) -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")
    async with running(tmp_path) as world:
        for version in range(5):
            reply = await world.call(request, version, ApiVersionsResponse)
            assert reply.error_code == ErrorCode.NONE
            assert [(api.api_key, api.min_version, api.max_version) for api in reply.api_keys] == [
                (key, first, last) for key, (_, first, last) in sorted(KAFKA.items())
            ]


GOOD = ["a", "A", "7", "apache-kafka-java", "4.3.1", "a.b-c", "x" * 1000]
BAD = ["", "-a", "a-", ".a", "a.", ".", "a b", "a_b", "a/b", "é", "a\n", "a\0b"]


@asynchronous
async def test_the_name_of_the_software(tmp_path: Path) -> None:
    """KIP-511: letters, digits, dots and dashes, with a letter or digit at both ends; only from version 3 on."""

    async def ask(name: str, software_version: str, api_version: int) -> ApiVersionsResponse:
        request = ApiVersionsRequest(client_software_name=name, client_software_version=software_version)
        return await world.call(request, api_version, ApiVersionsResponse)

    async with running(tmp_path) as world:
        for name in GOOD + BAD:
            expected = ErrorCode.NONE if name in GOOD else ErrorCode.INVALID_REQUEST
            for reply in (await ask(name, "1.0", 3), await ask("test", name, 3), await ask(name, name, 4)):
                assert reply.error_code == expected, name
                assert bool(reply.api_keys) == (expected is ErrorCode.NONE)
            assert (await ask(name, name, 2)).error_code == ErrorCode.NONE
