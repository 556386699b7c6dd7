"""How brokers agree on the cluster's id, on who is who, and on the one controller."""

import asyncio
from collections.abc import Sequence

import pytest

from ottla.cluster import znodes
from ottla.cluster.image import NO_CONTROLLER, ClusterImage
from ottla.cluster.registration import register_broker
from ottla.metadata.membership import (
    BrokerIdTakenError,
    Membership,
    elect_self_controller,
    ensure_cluster_id,
    register,
    wait_for_id,
)
from ottla.store.interface import Create, Op, Put, Refusal, StoreConflictError
from tests.metadata.world import ControllerWorld, Member
from tests.replication.cluster import broker_znode
from tests.replication.world import on_loop, settle


async def started(world: ControllerWorld, broker_id: int) -> Member:
    """A broker that has read the cluster and not said anything yet."""
    member = Member(world, broker_id, {})
    await member.store.start()
    await member.metadata.start()
    return member


async def seek(world: ControllerWorld, member: Member) -> None:
    await elect_self_controller(member.metadata, member.store, member.id, world.clock)


# The cluster's id


@on_loop
async def test_the_first_broker_names_the_cluster() -> None:
    world = ControllerWorld()
    one, two = await started(world, 1), await started(world, 2)
    first, is_new = await ensure_cluster_id(one.store, one.random.randbytes, None)
    assert is_new
    assert await ensure_cluster_id(two.store, two.random.randbytes, None) == (first, False)
    assert await ensure_cluster_id(one.store, one.random.randbytes, None) == (first, False)


@on_loop
async def test_of_two_who_name_it_at_once_one_wins() -> None:
    world = ControllerWorld()
    one = await started(world, 1)

    def be_first() -> None:
        world.tree.commit([Create(znodes.CLUSTER_ID, znodes.encode_cluster_id("the-other"))], 0)

    one.store.before_commit = be_first
    agreed, is_new = await ensure_cluster_id(one.store, one.random.randbytes, None)
    assert agreed == "the-other"
    assert not is_new, "the store belongs to the other, who may have put topics into it"


@on_loop
async def test_a_new_store_takes_the_id_that_the_data_has() -> None:
    world = ControllerWorld()
    one, two = await started(world, 1), await started(world, 2)
    assert await ensure_cluster_id(one.store, one.random.randbytes, "from-disk") == ("from-disk", True)
    assert await ensure_cluster_id(two.store, two.random.randbytes, "another") == ("from-disk", False)


# Broker ids


@on_loop
async def test_a_broker_id_is_taken_once() -> None:
    world = ControllerWorld()
    one, twin = await started(world, 1), await started(world, 1)
    await register(one.store, 1, broker_znode(1))
    with pytest.raises(BrokerIdTakenError, match=r"id 1 is already running .* set another node\.id"):
        await register(twin.store, 1, broker_znode(1))
    await one.leave()
    await register(twin.store, 1, broker_znode(1))


@on_loop
async def test_a_broker_that_was_given_up_leaves_its_id() -> None:
    world = ControllerWorld()
    one, heir = await started(world, 1), await started(world, 1)
    await register(one.store, 1, broker_znode(1))
    assert one.store.session_id is not None
    world.tree.expire(one.store.session_id)
    await register(heir.store, 1, broker_znode(1))
    await one.store.start()
    with pytest.raises(BrokerIdTakenError):
        await register(one.store, 1, broker_znode(1))


# The controller's seat


@on_loop
async def test_one_broker_is_the_controller(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    world = ControllerWorld()
    members = [await started(world, broker_id) for broker_id in (1, 2, 3)]
    await asyncio.gather(*(seek(world, member) for member in members))
    await world.notice()
    assert {member.metadata.image.controller_id for member in members} == {1}
    assert {member.metadata.image.controller_epoch for member in members} == {1}
    assert caplog.messages.count("this broker is the controller, epoch 1") == 1
    assert caplog.messages.count("broker 1 is the controller") == 2


@on_loop
async def test_the_next_controller_has_the_next_epoch() -> None:
    world = ControllerWorld()
    one, two = await started(world, 1), await started(world, 2)
    await seek(world, one)
    await one.leave()
    await world.notice()
    assert two.metadata.image.controller_id == NO_CONTROLLER
    await seek(world, two)
    assert (two.metadata.image.controller_id, two.metadata.image.controller_epoch) == (2, 2)


@on_loop
async def test_a_free_seat_is_taken_even_with_an_old_image() -> None:
    """The last controller came and went while this broker was starting: only the epoch is not what it was."""
    world = ControllerWorld()
    two = await started(world, 2)
    one = await started(world, 1)
    await seek(world, one)
    await one.leave()
    await seek(world, two)
    assert (two.metadata.image.controller_id, two.metadata.image.controller_epoch) == (2, 2)


@on_loop
async def test_clients_are_sent_to_a_broker_that_is_there() -> None:
    world = ControllerWorld()
    one, two = await world.join(1), await world.join(2)
    assert (one.metadata.controller_for_clients, two.metadata.controller_for_clients) == (1, 1)
    one.metadata.stopping = True
    assert one.metadata.controller_for_clients == 2
    await one.leave()
    await world.notice()
    assert two.metadata.image.controller_id == NO_CONTROLLER
    assert two.metadata.controller_for_clients == 2
    two.metadata.stopping = True
    assert two.metadata.controller_for_clients == 2, "there is no other"


@on_loop
async def test_a_controller_that_does_not_exist_is_replaced() -> None:
    world = ControllerWorld()
    one = await started(world, 1)
    world.tree.commit([Put(znodes.CONTROLLER, znodes.encode_controller(-1, 0))], 0)
    await elect_self_controller(one.metadata, one.store, 1, world.clock)
    assert one.metadata.image.controller_id == 1


@on_loop
async def test_a_store_that_always_refuses_is_not_asked_for_ever(caplog: pytest.LogCaptureFixture) -> None:
    world = ControllerWorld()
    one = await started(world, 1)

    async def refuse(ops: Sequence[Op]) -> list[int]:
        raise StoreConflictError(0, ops[0], Refusal.EXISTS)

    one.store.commit = refuse  # type: ignore[method-assign]
    await elect_self_controller(one.metadata, one.store, 1, world.clock)
    assert "this broker cannot become the controller" in caplog.text


# A session that is lost


class Joined:
    """A broker that is a member, and the leaders that those who act on the image have seen last."""

    def __init__(self, world: ControllerWorld, member: Member) -> None:
        self.member = member
        self.leaders: list[int] = []
        self.membership = Membership(member.id, member.store, member.metadata, world.clock)
        member.metadata.apply_with(lambda image, _: self._see(image))

    def _see(self, image: ClusterImage) -> None:
        self.leaders = [state.leader for topic in image.topics.values() for state in topic.partitions]

    def lose_session(self, world: ControllerWorld) -> None:
        assert self.member.store.session_id is not None
        world.tree.expire(self.member.store.session_id)


async def joined(world: ControllerWorld, broker_id: int) -> Joined:
    member = await started(world, broker_id)
    await ensure_cluster_id(member.store, member.random.randbytes, None)
    await member.metadata.refresh()
    broker = Joined(world, member)
    await broker.membership.join(lambda: broker_znode(broker_id))
    return broker


@on_loop
async def test_the_first_member_is_the_controller() -> None:
    world = ControllerWorld()
    one, two = await joined(world, 1), await joined(world, 2)
    assert one.member.metadata.image.controller_id == two.member.metadata.image.controller_id == 1


@on_loop
async def test_a_broker_leads_nothing_from_the_moment_its_session_is_lost() -> None:
    world = ControllerWorld()
    one = await joined(world, 1)
    await one.member.metadata.create_topic("clicks", partitions=2, replication_factor=1)
    assert one.leaders == [1, 1]
    one.lose_session(world)
    assert one.leaders == [-1, -1], "at once: nobody has waited for anything"
    await settle()
    assert one.leaders == [1, 1], "it has joined again, and nobody else has taken over"
    assert one.member.metadata.image.brokers.keys() == {1}


@on_loop
async def test_a_broker_that_cannot_join_again_stays_fenced_and_tries_again() -> None:
    world = ControllerWorld()
    one = await joined(world, 1)
    await one.member.metadata.create_topic("clicks", partitions=1, replication_factor=1)
    one.member.store.broken.add("commit")
    one.lose_session(world)
    await settle()
    await one.member.metadata.refresh()
    assert one.leaders == [-1], "even when a new image comes"
    one.member.store.broken.clear()
    world.clock.advance(1)
    await settle()
    assert one.leaders == [1]


@on_loop
async def test_a_broker_whose_id_was_taken_meanwhile_stays_fenced_until_it_is_free(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = ControllerWorld()
    one, twin = await joined(world, 1), await started(world, 1)
    await one.member.metadata.create_topic("clicks", partitions=1, replication_factor=1)
    one.member.store.before_commit = lambda: world.tree.commit(
        register_broker(1, broker_znode(1)), twin.store.session_id or 0
    )
    one.lose_session(world)
    await settle()
    assert one.leaders == [-1]
    assert "already running" in caplog.text
    await twin.leave()
    world.clock.advance(1)
    await settle()
    assert one.leaders == [1]


@on_loop
async def test_an_entry_of_its_own_is_no_twin() -> None:
    """It was written by an attempt to join that failed later."""
    world = ControllerWorld()
    one = await joined(world, 1)
    one.member.store.broken.add("read_changes")
    one.lose_session(world)
    await settle()
    one.member.store.broken.clear()
    world.clock.advance(1)
    await settle()
    await one.member.metadata.create_topic("clicks", partitions=1, replication_factor=1)
    assert one.leaders == [1]


@on_loop
async def test_a_broker_that_stops_does_not_join_again() -> None:
    world = ControllerWorld()
    one = await joined(world, 1)
    one.membership.stop()
    one.lose_session(world)
    await settle()
    world.clock.advance(5)
    await settle()
    assert one.member.store.session_id is None


@on_loop
async def test_a_starting_broker_waits_for_its_former_session_to_end() -> None:
    world = ControllerWorld()
    one, heir = await joined(world, 1), await started(world, 1)
    waiting = asyncio.ensure_future(wait_for_id(heir.store, 1, 10, world.clock))
    for _ in range(5):
        world.clock.advance(1)
        await settle()
    assert not waiting.done()
    one.membership.stop()
    await one.member.leave()
    world.clock.advance(1)
    await settle()
    await waiting


@on_loop
async def test_a_starting_broker_does_not_wait_for_ever() -> None:
    world = ControllerWorld()
    await joined(world, 1)
    twin = await started(world, 1)
    waiting = asyncio.ensure_future(wait_for_id(twin.store, 1, 3, world.clock))
    for _ in range(5):
        await settle()
        world.clock.advance(1)
    with pytest.raises(BrokerIdTakenError, match=r"set another node\.id"):
        await waiting
