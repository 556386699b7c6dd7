"""What is told of a group's offsets is there to stay."""

import asyncio
from pathlib import Path
from typing import Any, cast

from ottla.errors import ErrorCode
from ottla.handlers import offset_fetch
from ottla.handlers.exchange import Exchange
from ottla.wire.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from tests.coordinator.world import Broker, Machine
from tests.replication.world import on_loop, settle

SYNC_EACH = {"log.flush.interval.messages": "1"}


class At:
    def __init__(self, api_version: int) -> None:
        self.api_version = api_version


def ask(broker: Broker, version: int = 7) -> Any:
    request = OffsetFetchRequest(
        group_id="readers", topics=[OffsetFetchRequestTopic(name="clicks", partition_indexes=[0])]
    )
    if version >= 8:
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="readers", topics=None)])
    return offset_fetch.handle(cast("Any", broker), cast("Exchange", At(version)), request)


@on_loop
async def test_an_offset_that_may_still_be_lost_is_not_told(tmp_path: Path) -> None:
    broker = await Machine(tmp_path).start(SYNC_EACH)
    await broker.commit({0: 5})
    assert (await ask(broker)).topics[0].partitions[0].committed_offset == 5
    broker.background.held = True
    committing = asyncio.ensure_future(broker.commit({0: 9}))
    await settle()
    answers = [asyncio.ensure_future(ask(broker, version)) for version in (7, 8)]
    await settle()
    assert not committing.done()
    assert not any(answer.done() for answer in answers)
    await broker.background.finish_all()
    first, second = [cast("OffsetFetchResponse", await answer) for answer in answers]
    assert first.topics[0].partitions[0].committed_offset == 9
    assert second.groups[0].topics[0].partitions[0].committed_offset == 9


@on_loop
async def test_an_offset_that_was_lost_is_not_told_either(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    broker = await machine.start(SYNC_EACH)
    await broker.commit({0: 5})
    broker.background.held = True
    committing = asyncio.ensure_future(broker.commit({0: 9}))
    await settle()
    answer = asyncio.ensure_future(ask(broker))
    await settle()
    machine.disk.break_("sync", ".log")
    await broker.background.finish_all()
    assert await committing == {ErrorCode.NOT_COORDINATOR}
    refused = cast("OffsetFetchResponse", await answer)
    assert refused.error_code == ErrorCode.NOT_COORDINATOR
    assert refused.topics == []
