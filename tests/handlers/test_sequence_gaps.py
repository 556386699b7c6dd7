"""A batch whose sequence numbers are ahead, because the one before it was refused for the moment, or for no reason."""

from pathlib import Path

import pytest

from ottla.errors import ErrorCode
from ottla.handlers.produce_again import ProduceAgain
from ottla.model import TopicId
from ottla.wire.api.produce import ProduceResponse
from tests.handlers.test_produce_again import Sample, a_batch, create_topics, never_learn
from tests.server.worlds import MemoryConnection, Running, asynchronous, running

VERSION = 12
PRODUCER = 7


class Sender:
    """Sends batches of one producer by their sequence numbers."""

    def __init__(self, world: Running, topics: dict[str, TopicId]) -> None:
        self._connection: MemoryConnection = world.connect()
        self._topics = topics
        self._sent = 0

    def send(self, *sequences: int) -> list[ErrorCode]:
        return [self._send(sequence) for sequence in sequences]

    def _send(self, sequence: int) -> ErrorCode:
        sample = Sample(VERSION, "plain", ((0, a_batch(b"x", producer_id=PRODUCER, sequence=sequence)),))
        self._connection.push(sample.frame(self._sent, self._topics))
        reply = self._connection.reply(self._sent, ProduceResponse, VERSION)
        self._sent += 1
        return ErrorCode(reply.responses[0].partition_responses[0].error_code)


@pytest.fixture(params=["fast", "slow"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "slow":
        monkeypatch.setattr(ProduceAgain, "learn", never_learn)


async def new_leader(world: Running, topics: dict[str, TopicId]) -> None:
    """The broker was none for a moment, and leads in another epoch."""
    world.broker.controller.fence()
    assert Sender(world, topics).send(5) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    await world.broker.controller.begin_new_epochs()
    world.broker.controller.unfence()


@asynchronous
async def test_what_follows_a_refused_batch_is_to_be_sent_again(tmp_path: Path) -> None:
    """Whoever refused it: here it was another connection, as it may have been another broker."""
    async with running(tmp_path) as world:
        topics = await create_topics(world)
        sender = Sender(world, topics)
        assert sender.send(0, 1, 2, 3, 4) == [ErrorCode.NONE] * 5
        await new_leader(world, topics)
        assert sender.send(6, 7) == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
        assert sender.send(5, 6, 7) == [ErrorCode.NONE] * 3


@asynchronous
async def test_a_gap_without_a_reason_is_one(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        topics = await create_topics(world)
        sender = Sender(world, topics)
        assert sender.send(0, 1, 2, 3, 4, 5, 6) == [ErrorCode.NONE] * 7
        assert sender.send(8) == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
        await new_leader(world, topics)
        assert sender.send(0) == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER], "it is behind, not ahead"
        await world.clock.advance(6.0)
        assert sender.send(8) == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER], "nobody sends it again"
