"""How brokers agree on the cluster's id, on who is who, and on the one controller."""

import asyncio

import pytest

from ottla.cluster import znodes
from ottla.cluster.image import NO_CONTROLLER
from ottla.controller.membership import BrokerIdTakenError, ensure_cluster_id, register, seek_controller_seat
from ottla.store.interface import Create
from tests.controller.world import ControllerWorld, Member
from tests.replication.cluster import broker_znode
from tests.replication.world import on_loop


async def started(world: ControllerWorld, broker_id: int) -> Member:
    """A broker that has read the cluster and not said anything yet."""
    member = Member(world, broker_id, {})
    await member.store.start()
    await member.controller.start()
    return member


async def seek(world: ControllerWorld, member: Member) -> None:
    await seek_controller_seat(member.controller, member.store, member.id, world.clock)


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
    assert {member.controller.image.controller_id for member in members} == {1}
    assert {member.controller.image.controller_epoch for member in members} == {1}
    assert caplog.messages.count("this broker is the controller, epoch 1") == 1
    assert caplog.messages.count("broker 1 is the controller") == 2


@on_loop
async def test_the_next_controller_has_the_next_epoch() -> None:
    world = ControllerWorld()
    one, two = await started(world, 1), await started(world, 2)
    await seek(world, one)
    await one.leave()
    await world.notice()
    assert two.controller.image.controller_id == NO_CONTROLLER
    await seek(world, two)
    assert (two.controller.image.controller_id, two.controller.image.controller_epoch) == (2, 2)


@on_loop
async def test_a_free_seat_is_taken_even_with_an_old_image() -> None:
    """The last controller came and went while this broker was starting: only the epoch is not what it was."""
    world = ControllerWorld()
    two = await started(world, 2)
    one = await started(world, 1)
    await seek(world, one)
    await one.leave()
    await seek(world, two)
    assert (two.controller.image.controller_id, two.controller.image.controller_epoch) == (2, 2)
