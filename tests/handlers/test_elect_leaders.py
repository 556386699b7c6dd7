"""ElectLeaders among running brokers, and leadership that goes back by itself."""

from pathlib import Path

from ottla.cluster.elections import ElectionType
from ottla.errors import ErrorCode
from ottla.wire.api.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from tests.handlers.brokers import Brokers, brokers
from tests.server.worlds import asynchronous


async def elect(
    cluster: Brokers, wanted: dict[str, list[int]] | None, election: int = ElectionType.PREFERRED
) -> tuple[ErrorCode, dict[str, dict[int, ErrorCode]]]:
    topics = None
    if wanted is not None:
        topics = [TopicPartitions(topic=name, partitions=indexes) for name, indexes in wanted.items()]
    request = ElectLeadersRequest(election_type=election, topic_partitions=topics)
    reply = await cluster.call(request, ElectLeadersResponse)
    return ErrorCode(reply.error_code), {
        result.topic: {it.partition_id: ErrorCode(it.error_code) for it in result.partition_result}
        for result in reply.replica_election_results
    }


async def led_by_others(cluster: Brokers) -> None:
    """Topics t and u, whose preferred leader 2 was away and is in sync again."""
    await cluster.create("t", [2, 1], [1, 2])
    await cluster.create("u", [2, 1])
    await cluster.stop(2)
    await cluster.state_becomes(lambda state: state.leader == 1, "t")
    await cluster.start(2)
    for topic in ("t", "u"):
        await cluster.state_becomes(lambda state: set(state.isr) == {1, 2}, topic)


@asynchronous
async def test_the_preferred_leaders_are_elected(tmp_path: Path) -> None:
    async with brokers(tmp_path, 2) as cluster:
        await led_by_others(cluster)
        assert await elect(cluster, {"t": [0, 1, 0, 9], "absent": [0]}) == (
            ErrorCode.NONE,
            {
                "t": {0: ErrorCode.NONE, 1: ErrorCode.ELECTION_NOT_NEEDED, 9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
                "absent": {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
            },
        )
        await cluster.state_becomes(lambda state: state.leader == 2, "t")
        await cluster.produce("t", 3)
        assert await elect(cluster, None) == (ErrorCode.NONE, {"t": {}, "u": {0: ErrorCode.NONE}})
        assert await elect(cluster, None) == (ErrorCode.NONE, {"t": {}, "u": {}})


@asynchronous
async def test_what_is_refused(tmp_path: Path) -> None:
    async with brokers(tmp_path, 2) as cluster:
        await cluster.create("t", [2, 1])
        await cluster.create("alone", [2])
        everything = {"t": [0]}
        assert await elect(cluster, everything, 7) == (ErrorCode.INVALID_REQUEST, {"t": {0: ErrorCode.INVALID_REQUEST}})
        _, codes = await elect(cluster, everything, ElectionType.UNCLEAN)
        assert codes == {"t": {0: ErrorCode.ELECTION_NOT_NEEDED}}
        await cluster.stop(2)
        await cluster.state_becomes(lambda state: state.leader == 1, "t")
        assert (await elect(cluster, everything))[1] == {"t": {0: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}}
        await cluster.state_becomes(lambda state: state.leader == -1, "alone")
        _, codes = await elect(cluster, {"alone": [0]}, ElectionType.UNCLEAN)
        assert codes == {"alone": {0: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}}


@asynchronous
async def test_leadership_goes_back_by_itself(tmp_path: Path) -> None:
    settings = {"auto.leader.rebalance.enable": "true", "leader.imbalance.check.interval.seconds": "1"}
    async with brokers(tmp_path, 2, settings) as cluster:
        await led_by_others(cluster)
        for topic in ("t", "u"):
            await cluster.state_becomes(lambda state: state.leader == 2, topic)
