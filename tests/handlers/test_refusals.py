"""A batch behind one that was refused for the moment: why it cannot be appended, on both ways of Produce."""

from pathlib import Path

import pytest

from ottla.errors import ErrorCode
from ottla.handlers.produce_again import ProduceAgain
from ottla.wire.api.produce import ProduceResponse
from tests.handlers.test_produce_again import Sample, a_batch, create_topics, never_learn
from tests.server.worlds import MemoryConnection, Running, asynchronous, running

VERSION = 12
PRODUCER = 7


class Sender:
    """Sends batches of one producer by their sequence numbers."""

    def __init__(self, world: Running, topics: dict[str, bytes]) -> None:
        self._connection: MemoryConnection = world.connect()
        self._topics = topics
        self._sent = 0

    def send(self, sequence: int) -> ErrorCode:
        sample = Sample(VERSION, "plain", ((0, a_batch(b"x", producer_id=PRODUCER, sequence=sequence)),))
        self._connection.push(sample.frame(self._sent, self._topics))  # type: ignore[arg-type]
        reply = self._connection.reply(self._sent, ProduceResponse, VERSION)
        self._sent += 1
        return ErrorCode(reply.responses[0].partition_responses[0].error_code)


@pytest.fixture(params=["fast", "slow"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "slow":
        monkeypatch.setattr(ProduceAgain, "learn", never_learn)


async def begin(world: Running) -> tuple[Sender, Sender]:
    """Two connections; the first has sent the sequence numbers 0 to 4."""
    topics = await create_topics(world)
    sender, other = Sender(world, dict(topics)), Sender(world, dict(topics))
    assert [sender.send(sequence) for sequence in range(5)] == [ErrorCode.NONE] * 5
    return sender, other


@asynchronous
async def test_it_is_refused_for_the_same_reason(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        sender, _ = await begin(world)
        world.broker.controller.fence()
        assert sender.send(5) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        world.broker.controller.unfence()
        assert [sender.send(sequence) for sequence in (6, 7)] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
        assert [sender.send(sequence) for sequence in (5, 6, 7)] == [ErrorCode.NONE] * 3


@asynchronous
async def test_a_gap_without_a_reason_is_one(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        sender, other = await begin(world)
        assert sender.send(6) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        world.broker.controller.fence()
        assert sender.send(5) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        world.broker.controller.unfence()
        assert other.send(6) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "nothing of this connection was refused"
        assert sender.send(5) == ErrorCode.NONE
        assert sender.send(7) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "what was refused has come since"
