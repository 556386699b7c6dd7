"""A broker creates the logs of a large topic in several rounds. Its coordinators serve all partitions in the end."""

from pathlib import Path

import pytest

from ottla.errors import ErrorCode
from ottla.replication import replicas
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from tests.server.worlds import asynchronous, running, until

PARTITIONS = 20
GROUPS = 100
"""Enough for a group on every partition of `__consumer_offsets`."""
SINGLE_GROUP_VERSION = 7


@asynchronous
async def test_groups_on_partitions_of_a_later_round_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas, "_NEW_LOGS_AT_ONCE", 3)
    settings = {"offsets.topic.num.partitions": str(PARTITIONS)}
    async with running(tmp_path, settings) as world:
        world.connect().request(FindCoordinatorRequest(key="group-0"), 0)
        await until(lambda: sum(1 for _ in world.broker.replicas) > 0)
        while not world.broker.replicas.all_hosted:
            await world.clock.advance(0.1)
        client = world.connect()

        async def errors() -> set[int]:
            before = len(client.frames())
            for number in range(GROUPS):
                client.request(OffsetFetchRequest(group_id=f"group-{number}", topics=[]), SINGLE_GROUP_VERSION)
            await until(lambda: len(client.frames()) == before + GROUPS)
            replies = [
                client.reply(before + number, OffsetFetchResponse, SINGLE_GROUP_VERSION) for number in range(GROUPS)
            ]
            return {reply.error_code for reply in replies}

        while ErrorCode.COORDINATOR_LOAD_IN_PROGRESS in (found := await errors()):
            pass
        assert found == {ErrorCode.NONE}
