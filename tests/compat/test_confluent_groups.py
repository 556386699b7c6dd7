"""confluent-kafka (librdkafka) in consumer groups: members join, leave, die and come back."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState, TopicPartition
from confluent_kafka.admin import NewPartitions

from tests.compat.confluent_client import Record, consume, consumer, produce, values
from tests.compat.conftest import MakeTopic
from tests.compat.deadlines import eventually
from tests.compat.group_member import partitions_of, running_member

pytestmark = pytest.mark.rebalance

QUICK = {"heartbeat_interval_ms": 100, "session_timeout_ms": 6000}


class Member:
    """A consumer and the partitions that it was told to own."""

    def __init__(self, client: Any, topics: list[str]) -> None:
        self.client = client
        self.owned: set[tuple[str, int]] = set()
        self.assignments = 0
        self.revocations = 0
        client.subscribe(topics, on_assign=self._assign, on_revoke=self._revoke, on_lost=self._revoke)

    def _assign(self, _: Any, partitions: list[Any]) -> None:
        self.assignments += 1
        self.owned |= {(p.topic, p.partition) for p in partitions}

    def _revoke(self, _: Any, partitions: list[Any]) -> None:
        self.revocations += 1
        self.owned -= {(p.topic, p.partition) for p in partitions}


@contextmanager
def member(bootstrap: str, group: str, *topics: str, **config: Any) -> Iterator[Member]:
    with consumer(bootstrap, group, **{**QUICK, **config}) as client:
        yield Member(client, list(topics))


def settle(members: list[Member], partitions: int) -> list[int]:
    """Poll everybody until all partitions are owned once; returns how many each member has, sorted."""

    def settled() -> bool:
        for each in members:
            each.client.poll(0.02)
        owned = [place for each in members for place in each.owned]
        return len(owned) == len(set(owned)) == partitions and all(each.assignments for each in members)

    eventually(settled)
    return sorted(len(each.owned) for each in members)


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_partitions_are_shared_as_members_come_and_go(
    bootstrap: str, make_topic: MakeTopic, group: str, strategy: str
) -> None:
    topic = make_topic(partitions=6)
    config = {"partition_assignment_strategy": strategy}
    with ExitStack() as leavers, member(bootstrap, group, topic, **config) as first:
        assert settle([first], 6) == [6]
        second = leavers.enter_context(member(bootstrap, group, topic, **config))
        assert settle_evenly([first, second], 6) == [3, 3]
        third = leavers.enter_context(member(bootstrap, group, topic, **config))
        assert settle_evenly([first, second, third], 6) == [2, 2, 2]
        leavers.close()
        assert settle([first], 6) == [6]


def settle_evenly(members: list[Member], partitions: int) -> list[int]:
    """Cooperative members may own everything for a moment before the newcomer gets its share."""
    share = partitions // len(members)
    eventually(lambda: set(settle(members, partitions)) == {share})
    return settle(members, partitions)


def test_every_message_reaches_one_member(bootstrap: str, make_topic: MakeTopic, group: str) -> None:
    topic = make_topic(partitions=4)
    with member(bootstrap, group, topic) as first, member(bootstrap, group, topic) as second:
        assert settle_evenly([first, second], 4) == [2, 2]
        produce(bootstrap, topic, [Record(str(i).encode(), partition=i % 4) for i in range(40)])
        seen = consume(first.client, 20) + consume(second.client, 20)
        assert sorted(int(m.value()) for m in seen) == list(range(40))
        assert first.client.poll(0.1) is None
        assert second.client.poll(0.1) is None


def test_more_members_than_partitions_leaves_some_idle(bootstrap: str, topic: str, group: str) -> None:
    with ExitStack() as stack:
        members = [stack.enter_context(member(bootstrap, group, topic)) for _ in range(3)]
        assert settle(members, 1) == [0, 0, 1]


def test_an_idle_member_takes_over_when_the_owner_leaves(bootstrap: str, topic: str, group: str) -> None:
    with member(bootstrap, group, topic) as idle:
        with member(bootstrap, group, topic) as other:
            settle([idle, other], 1)
        assert settle([idle], 1) == [1]
        produce(bootstrap, topic, values(5))
        assert [m.offset() for m in consume(idle.client, 5)] == [0, 1, 2, 3, 4]


def test_a_killed_member_is_replaced_after_its_session_timeout(
    bootstrap: str, make_topic: MakeTopic, group: str
) -> None:
    topic = make_topic(partitions=2)
    timeouts = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 100}
    with running_member(bootstrap, topic, group, **timeouts) as process:
        assert partitions_of(process) == [0, 1]
        with member(bootstrap, group, topic) as survivor:
            assert settle_shared(survivor, 1) == 1
            process.kill()
            assert settle_shared(survivor, 2) == 2


def settle_shared(one: Member, partitions: int) -> int:
    """Wait until this member owns so many partitions, the rest being somebody else's."""
    eventually(lambda: one.client.poll(0.05) or len(one.owned) == partitions)
    return len(one.owned)


def test_a_static_member_returns_to_its_partitions_without_a_rebalance(
    bootstrap: str, make_topic: MakeTopic, group: str
) -> None:
    topic = make_topic(partitions=2)
    with ExitStack() as first_life, member(bootstrap, group, topic, group_instance_id="stays") as stays:
        returns = first_life.enter_context(member(bootstrap, group, topic, group_instance_id="returns"))
        assert settle_evenly([stays, returns], 2) == [1, 1]
        before, rebalances = set(returns.owned), stays.assignments
        first_life.close()
        with member(bootstrap, group, topic, group_instance_id="returns") as again:
            assert settle([stays, again], 2) == [1, 1]
            assert again.owned == before
            assert stays.assignments == rebalances


def test_the_group_agrees_on_the_strategy_everyone_has(
    bootstrap: str, admin: Any, make_topic: MakeTopic, group: str
) -> None:
    topic = make_topic(partitions=2)
    with (
        member(bootstrap, group, topic, partition_assignment_strategy="range,roundrobin") as both,
        member(bootstrap, group, topic, partition_assignment_strategy="roundrobin") as one,
    ):
        assert settle_evenly([both, one], 2) == [1, 1]
        description = admin.describe_consumer_groups([group])[group].result(10)
        assert description.partition_assignor == "roundrobin"


def test_a_described_group_shows_members_and_their_partitions(
    bootstrap: str, admin: Any, make_topic: MakeTopic, group: str
) -> None:
    topic = make_topic(partitions=2)
    with member(bootstrap, group, topic, client_id="reader-1") as only:
        settle([only], 2)
        description = admin.describe_consumer_groups([group])[group].result(10)
        assert (description.group_id, description.state) == (group, ConsumerGroupState.STABLE)
        assert (description.is_simple_consumer_group, description.partition_assignor) == (False, "range")
        [described] = description.members
        assert (described.client_id, described.host) == ("reader-1", "/127.0.0.1")
        assert described.member_id.startswith("reader-1-")
        partitions = described.assignment.topic_partitions
        assert {(p.topic, p.partition) for p in partitions} == {(topic, 0), (topic, 1)}
        assert description.coordinator.port == int(bootstrap.rpartition(":")[2])


def test_one_group_does_not_disturb_another(bootstrap: str, topic: str, group: str) -> None:
    produce(bootstrap, topic, values(10))
    with member(bootstrap, group, topic) as first, member(bootstrap, group + "-b", topic) as second:
        assert [m.offset() for m in consume(first.client, 10)] == list(range(10))
        assert [m.offset() for m in consume(second.client, 10)] == list(range(10))
        first.client.commit(asynchronous=False)
        assert second.client.committed([TopicPartition(topic, 0)], timeout=10)[0].offset < 0


def test_a_member_with_two_topics_gets_both(bootstrap: str, make_topic: MakeTopic, group: str) -> None:
    topics = [make_topic(partitions=2), make_topic(partitions=3)]
    with member(bootstrap, group, *topics) as only:
        assert settle([only], 5) == [5]
        assert {name for name, _ in only.owned} == set(topics)


def test_new_partitions_are_given_out(bootstrap: str, admin: Any, topic: str, group: str) -> None:
    with member(bootstrap, group, topic, topic_metadata_refresh_interval_ms=200) as only:
        assert settle([only], 1) == [1]
        admin.create_partitions([NewPartitions(topic, 3)])[topic].result(10)
        assert settle([only], 3) == [3]
