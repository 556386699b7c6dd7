"""Every broker sees the same cluster; decisions survive races, and a store in trouble is an error, not a crash."""

import asyncio
import logging
from collections.abc import Mapping, Sequence

import pytest

from ottla.cluster import znodes
from ottla.cluster.elections import ElectionType
from ottla.cluster.failover import MAX_STATES_IN_COMMIT
from ottla.cluster.image import DEFAULT_BROKER, ClusterImage, Entity, EntityType
from ottla.cluster.znodes import PartitionStateZnode
from ottla.config.broker import BrokerConfig
from ottla.errors import ErrorCode
from ottla.model import GROUP_OFFSETS_TOPIC, ControllerEpoch, LeaderEpoch, TopicId, TopicPartition
from ottla.store.interface import Delete, Op, Put
from tests.metadata.world import ControllerWorld
from tests.replication.world import expect, on_loop, settle

CLICKS = Entity(EntityType.TOPIC, "clicks")


# Following each other


@on_loop
async def test_two_brokers_see_each_others_changes() -> None:
    world = ControllerWorld()
    one, two = await world.join(1), await world.join(2)
    assert set(one.metadata.image.brokers) == set(two.metadata.image.brokers) == {1, 2}
    created = await two.metadata.create_topic("clicks", partitions=4)
    assert "clicks" in two.metadata.image.topics, "who makes a change has acted on it when the call returns"
    await world.notice()
    assert one.metadata.image.topics["clicks"].topic_id == created.topic_id
    await one.metadata.delete_topic("clicks")
    await world.notice()
    assert two.metadata.image.topics == {}
    await two.leave()
    await world.notice()
    assert set(one.metadata.image.brokers) == {1}


@on_loop
async def test_the_broker_applies_the_present_image_and_every_later_one() -> None:
    world = ControllerWorld()
    one = await world.join(1)
    await one.metadata.create_topic("first")
    seen: list[list[str]] = []
    one.metadata.apply_with(lambda image, _: seen.append(sorted(image.topics)))
    assert seen == [["first"]]
    await one.metadata.create_topic("second")
    assert seen[-1] == ["first", "second"]
    count = len(seen)
    await world.notice()
    assert len(seen) == count, "the broker's own change, seen once more, is no news"


@on_loop
async def test_a_change_that_comes_while_the_last_one_is_read_is_not_missed() -> None:
    world = ControllerWorld()
    one, two = await world.join(1), await world.join(2)
    two.store.answers.clear()
    await one.metadata.create_topic("first")
    await world.notice()
    await one.metadata.create_topic("second")
    await world.notice()
    two.store.answers.set()
    await world.notice()
    assert set(two.metadata.image.topics) == {"first", "second"}


@on_loop
async def test_what_arrives_late_does_not_turn_the_image_back() -> None:
    world = ControllerWorld()
    one, two = await world.join(1), await world.join(2)
    await one.metadata.create_topic("clicks")
    await world.notice()
    two.store.answers.clear()
    await one.metadata.set_overrides(CLICKS, lambda _: {"retention.ms": "1000"})
    slow = asyncio.ensure_future(two.metadata.refresh())
    await settle()
    await one.metadata.set_overrides(CLICKS, lambda _: {"retention.ms": "2000"})
    late, two.store.answers = two.store.answers, asyncio.Event()
    two.store.answers.set()
    await two.metadata.refresh()
    late.set()
    await slow
    assert two.metadata.image.topic_config("clicks") == {"retention.ms": "2000"}


@on_loop
async def test_nothing_is_followed_after_a_stop() -> None:
    world = ControllerWorld()
    one, two = await world.join(1), await world.join(2)
    two.store.answers.clear()
    await one.metadata.create_topic("first")
    await world.notice()
    await two.leave()
    two.store.answers.set()
    await one.metadata.create_topic("second")
    await world.notice()
    assert two.metadata.image.topics == {}


# Decisions that race


@on_loop
async def test_a_decision_on_an_old_image_is_made_again() -> None:
    world = ControllerWorld()
    one, two = await world.join(1), await world.join(2)
    await one.metadata.create_topic("clicks")
    await world.notice()
    await one.metadata.set_overrides(CLICKS, lambda _: {"retention.ms": "1000"})
    seen: list[Mapping[str, str]] = []

    def add_segment_ms(present: Mapping[str, str]) -> Mapping[str, str]:
        seen.append(dict(present))
        return {**present, "segment.ms": "500"}

    await two.metadata.set_overrides(CLICKS, add_segment_ms)
    assert seen == [{}, {"retention.ms": "1000"}], "the first look was at an image without the other's change"
    await world.notice()
    for member in (one, two):
        both = {"retention.ms": "1000", "segment.ms": "500"}
        assert member.metadata.image.topic_config("clicks") == both


@on_loop
async def test_of_two_who_create_the_same_topic_one_is_told_that_it_exists() -> None:
    world = ControllerWorld()
    one, two = await world.join(1), await world.join(2)
    results = await asyncio.gather(
        one.metadata.create_topic("clicks"), two.metadata.create_topic("clicks"), return_exceptions=True
    )
    (created,) = [result for result in results if not isinstance(result, BaseException)]
    (refused,) = [result for result in results if isinstance(result, BaseException)]
    assert getattr(refused, "code", None) is ErrorCode.TOPIC_ALREADY_EXISTS
    await world.notice()
    assert one.metadata.image.topics["clicks"] == two.metadata.image.topics["clicks"]
    assert one.metadata.image.topics["clicks"].topic_id == created.topic_id


@on_loop
async def test_a_cluster_that_never_holds_still_gives_up_in_the_end() -> None:
    world = ControllerWorld()
    one = await world.join(1)
    await one.metadata.create_topic("clicks")
    interferences = 0

    def interfere() -> None:
        nonlocal interferences
        interferences += 1
        world.tree.commit([Put(znodes.config_path("topics", "clicks"), znodes.encode_config({}))], 0)
        one.store.before_commit = interfere

    one.store.before_commit = interfere
    with expect(ErrorCode.REQUEST_TIMED_OUT):
        await one.metadata.set_overrides(CLICKS, lambda _: {"retention.ms": "1"})
    assert interferences == 10
    one.store.before_commit = None
    await one.metadata.set_overrides(CLICKS, lambda _: {"retention.ms": "1"})


@on_loop
async def test_many_changes_at_once_on_one_broker_follow_one_another() -> None:
    world = ControllerWorld()
    one = await world.join(1)
    await one.metadata.create_topic("clicks")

    async def count() -> None:
        await one.metadata.set_overrides(
            CLICKS, lambda present: {"segment.ms": str(int(present.get("segment.ms", "0")) + 1)}
        )

    await asyncio.gather(*(count() for _ in range(30)))
    assert one.metadata.image.topic_config("clicks") == {"segment.ms": "30"}


@on_loop
async def test_a_replaced_controller_cannot_write() -> None:
    """The fence: whoever decided under an older controller epoch has to look again."""
    world = ControllerWorld()
    one, two = await world.join(1), await world.join(2)
    epoch = one.metadata.image.controller_epoch

    def replace_controller() -> None:
        data = znodes.encode_controller_epoch(ControllerEpoch(epoch + 1))
        world.tree.commit([Put(znodes.CONTROLLER_EPOCH, data)], 0)

    two.store.before_commit = replace_controller
    await two.metadata.create_topic("clicks")
    assert two.metadata.image.topics["clicks"].partitions[0].controller_epoch == epoch + 1


# A store in trouble


@pytest.mark.parametrize("operation", ["commit", "read_changes"])
@on_loop
async def test_a_store_error_becomes_a_kafka_error(operation: str) -> None:
    world = ControllerWorld()
    one = await world.join(1)
    one.store.broken.add(operation)
    with expect(ErrorCode.UNKNOWN_SERVER_ERROR):
        await one.metadata.create_topic("clicks")
    one.store.broken.clear()
    await world.notice()
    await one.metadata.create_topic("orders")
    assert "orders" in one.metadata.image.topics


@on_loop
async def test_a_store_error_while_deciding_again_becomes_a_kafka_error() -> None:
    world = ControllerWorld()
    one, two = await world.join(1), await world.join(2)
    await one.metadata.create_topic("clicks")
    two.store.broken.add("read_changes")
    with expect(ErrorCode.UNKNOWN_SERVER_ERROR):
        await two.metadata.create_topic("clicks")
    two.store.broken.clear()


@on_loop
async def test_a_lost_session_becomes_a_kafka_error() -> None:
    world = ControllerWorld()
    one = await world.join(1)
    await one.metadata.create_topic("clicks")
    assert one.store.session_id is not None
    world.tree.expire(one.store.session_id)
    with expect(ErrorCode.UNKNOWN_SERVER_ERROR):
        await one.metadata.delete_topic("clicks")


@on_loop
async def test_a_change_that_cannot_be_read_is_logged_and_read_with_the_next(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = ControllerWorld()
    one, two = await world.join(1), await world.join(2)
    two.store.broken.add("read_changes")
    await one.metadata.create_topic("first")
    await world.notice()
    assert "The store cannot read_changes." in caplog.text
    assert two.metadata.image.topics == {}
    two.store.broken.clear()
    await one.metadata.create_topic("second")
    await world.notice()
    assert set(two.metadata.image.topics) == {"first", "second"}


@on_loop
async def test_a_damaged_node_is_logged_once_and_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    world = ControllerWorld()
    one = await world.join(1)
    caplog.set_level(logging.INFO)
    for data in (b"not json", b"still not json"):
        world.tree.commit([Put(znodes.topic_path("odd"), data)], 0)
        await world.notice()
    await one.metadata.create_topic("clicks")
    await one.metadata.refresh()
    assert set(one.metadata.image.topics) == {"clicks"}
    assert caplog.text.count("the node '/brokers/topics/odd' of the store is damaged") == 1
    assert "not a topic node: b'not json'" in caplog.text
    world.tree.commit([Delete(znodes.topic_path("odd"))], 0)
    await world.notice()
    assert caplog.text.count("the node '/brokers/topics/odd' of the store is repaired") == 1


# Settings


@on_loop
async def test_dynamic_settings_of_a_broker_take_effect() -> None:
    world = ControllerWorld()
    one, two = await world.join(1, {"num.partitions": "2"}), await world.join(2)
    mine = Entity(EntityType.BROKER, "1")
    await two.metadata.set_overrides(DEFAULT_BROKER, lambda _: {"log.retention.ms": "7000"})
    await two.metadata.set_overrides(mine, lambda _: {"log.retention.ms": "5000"})
    await world.notice()
    assert one.metadata.config.integer("log.retention.ms") == 5000
    assert two.metadata.config.integer("log.retention.ms") == 7000
    assert one.metadata.config.integer("num.partitions") == 2, "the static file stays underneath"
    await two.metadata.set_overrides(mine, lambda _: {})
    await world.notice()
    assert one.metadata.config.integer("log.retention.ms") == 7000


@on_loop
async def test_the_broker_gets_the_settings_with_the_image() -> None:
    world = ControllerWorld()
    one = await world.join(1)
    seen: list[BrokerConfig] = []
    one.metadata.apply_with(lambda _, config: seen.append(config))
    await one.metadata.create_topic("clicks")
    assert seen[-1] is seen[0], "settings that did not change are the same object"
    await one.metadata.set_overrides(DEFAULT_BROKER, lambda _: {"log.retention.ms": "7000"})
    assert seen[-1].integer("log.retention.ms") == 7000


@on_loop
async def test_a_stored_setting_that_makes_no_sense_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    world = ControllerWorld()
    one = await world.join(1)
    await one.metadata.set_overrides(
        DEFAULT_BROKER, lambda _: {"log.retention.ms": "soon", "log.segment.bytes": "2000000"}
    )
    assert one.metadata.config.integer("log.segment.bytes") == 2_000_000
    assert one.metadata.config.integer("log.retention.ms") == 7 * 24 * 3_600_000
    assert "log.retention.ms" in caplog.text


@on_loop
async def test_defaults_of_new_topics_come_from_the_settings() -> None:
    world = ControllerWorld()
    one = await world.join(1, {"num.partitions": "3"})
    assert len((await one.metadata.create_topic("clicks")).partitions) == 3
    assert len((await one.metadata.create_topic("orders", partitions=5)).partitions) == 5
    with expect(ErrorCode.INVALID_CONFIG):
        await one.metadata.create_topic("odd", overrides={"retention.ms": "soon"})
    with expect(ErrorCode.INVALID_CONFIG):
        await one.metadata.create_topic("odd", overrides={"no.such.key": "1"})


@on_loop
async def test_validate_only_changes_nothing() -> None:
    world = ControllerWorld()
    one = await world.join(1)
    revision = world.tree.revision
    shown = await one.metadata.create_topic("clicks", partitions=2, validate_only=True)
    assert len(shown.partitions) == 2
    await one.metadata.set_overrides(DEFAULT_BROKER, lambda _: {"log.retention.ms": "1"}, validate_only=True)
    assert world.tree.revision == revision


@on_loop
async def test_the_offsets_topic_has_its_own_settings() -> None:
    world = ControllerWorld()
    one = await world.join(1, {"offsets.topic.num.partitions": "5", "offsets.topic.replication.factor": "1"})
    await one.metadata.create_topic_automatically(GROUP_OFFSETS_TOPIC)
    assert len(one.metadata.image.topics[GROUP_OFFSETS_TOPIC].partitions) == 5
    assert one.metadata.image.topic_config(GROUP_OFFSETS_TOPIC)["cleanup.policy"] == "compact"


@on_loop
async def test_more_partitions_and_elections_reach_the_image() -> None:
    world = ControllerWorld()
    one = await world.join(1)
    await one.metadata.create_topic("clicks")
    await one.metadata.create_partitions("clicks", 3, None)
    assert len(one.metadata.image.topics["clicks"].partitions) == 3
    with expect(ErrorCode.INVALID_PARTITIONS):
        await one.metadata.create_partitions("clicks", 3, None)
    partition = TopicPartition("clicks", 0)
    refused = await one.metadata.elect_leaders([partition, partition], ElectionType.PREFERRED)
    assert {key: error.code for key, error in refused.items()} == {partition: ErrorCode.ELECTION_NOT_NEEDED}


# Logs that were there before


@on_loop
async def test_topics_are_adopted_from_the_logs() -> None:
    world = ControllerWorld()
    one = await world.join(1)
    clicks, orders = TopicId(bytes(range(16))), TopicId(bytes(range(1, 17)))
    await one.metadata.adopt_topics({"clicks": (clicks, 2, 4), "orders": (orders, 1, -1)})
    found = one.metadata.image.topics
    assert {name: (topic.topic_id, len(topic.partitions)) for name, topic in found.items()} == {
        "clicks": (clicks, 2),
        "orders": (orders, 1),
    }
    states = {state.leader_epoch for state in found["clicks"].partitions}
    assert states == {5}, "what is written next must not share an epoch with what the logs hold"
    assert {(state.leader, state.isr) for state in found["clicks"].partitions} == {(1, (1,))}
    await one.metadata.set_overrides(CLICKS, lambda _: {"retention.ms": "1"})


@on_loop
async def test_nothing_to_adopt_is_no_change() -> None:
    world = ControllerWorld()
    one = await world.join(1)
    revision = world.tree.revision
    await one.metadata.adopt_topics({})
    assert world.tree.revision == revision


@on_loop
async def test_after_a_crash_a_broker_leads_in_new_epochs() -> None:
    world = ControllerWorld()
    one, two = await world.join(1), await world.join(2)
    await one.metadata.create_topic("mine", assignment={0: [1], 1: [1]})
    await one.metadata.create_topic("theirs", assignment={0: [2]})
    await world.notice()

    def epochs(image: ClusterImage) -> dict[str, list[int]]:
        return {name: [state.leader_epoch for state in topic.partitions] for name, topic in image.topics.items()}

    await one.metadata.begin_new_epochs()
    await one.metadata.begin_new_epochs()
    await world.notice()
    assert epochs(two.metadata.image) == {"mine": [2, 2], "theirs": [0]}


@on_loop
async def test_new_epochs_of_many_partitions_are_several_commits() -> None:
    """ZooKeeper takes a megabyte at a time."""
    world = ControllerWorld()
    one = await world.join(1)
    await one.metadata.create_topic("clicks", partitions=MAX_STATES_IN_COMMIT + 1, replication_factor=1)
    largest = 0
    commit = one.store.commit

    async def measured(ops: Sequence[Op]) -> list[int]:
        nonlocal largest
        largest = max(largest, len(ops))
        return await commit(ops)

    one.store.commit = measured  # type: ignore[method-assign]
    await one.metadata.begin_new_epochs()
    assert {state.leader_epoch for state in one.metadata.image.topics["clicks"].partitions} == {1}
    assert largest == MAX_STATES_IN_COMMIT + 1, "with the fence"


@on_loop
async def test_new_epochs_begin_on_the_state_as_it_is() -> None:
    world = ControllerWorld()
    one = await world.join(1)
    await one.metadata.create_topic("clicks")

    def another_election() -> None:
        state = PartitionStateZnode(1, LeaderEpoch(7), (1,), one.metadata.image.controller_epoch)
        path = znodes.partition_state_path("clicks", 0)
        world.tree.commit([Put(path, znodes.encode_partition_state(state))], 0)

    one.store.before_commit = another_election
    await one.metadata.begin_new_epochs()
    assert one.metadata.image.topics["clicks"].partitions[0].leader_epoch == 8
