"""The largest reply that a small request can ask for, and that others are served while it is made."""

import asyncio
from pathlib import Path

import pytest

from ottla.errors import ErrorCode
from ottla.wire import codec
from ottla.wire.api.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.wire.api.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from tests.server.worlds import asynchronous, running

MOST_BYTES = 4 << 20
CLIENT_METRICS_TYPE = 16
GROUP_TYPE = 32


def describe(resource_type: int, count: int) -> DescribeConfigsRequest:
    resources = [
        DescribeConfigsResource(resource_type=resource_type, resource_name=str(number), configuration_keys=None)
        for number in range(count)
    ]
    return DescribeConfigsRequest(resources=resources, include_synonyms=True, include_documentation=True)


@pytest.mark.parametrize("resource_type", [GROUP_TYPE, CLIENT_METRICS_TYPE])
@pytest.mark.parametrize(("count", "refused"), [(1000, False), (1001, True), (10_000, True)])
@asynchronous
async def test_names_without_a_resource_get_a_short_reply(
    resource_type: int, count: int, refused: bool, tmp_path: Path
) -> None:
    async with running(tmp_path) as world:
        reply = await world.call(describe(resource_type, count), 4, DescribeConfigsResponse)
    assert len(reply.results) == count
    assert {result.error_code for result in reply.results} == {ErrorCode.INVALID_REQUEST if refused else ErrorCode.NONE}
    assert len(codec.encode(reply, 4)) < MOST_BYTES


@asynchronous
async def test_others_are_served_while_transactions_are_described(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.handlers.yielding._SLICE_SECONDS", -1.0)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with running(tmp_path) as world:
        task = asyncio.ensure_future(other())
        request = DescribeTransactionsRequest(transactional_ids=[str(number) for number in range(500)])
        reply = await world.call(request, 0, DescribeTransactionsResponse)
        task.cancel()
    assert len(reply.transaction_states) == 500
    assert turns >= 500
