"""Decisions of a broker about itself: registration, controller election, cluster id, producer id blocks."""

from collections.abc import Callable

from ottla.cluster import znodes
from ottla.cluster.image import NO_VERSION, ClusterImage
from ottla.cluster.znodes import BrokerZnode, ProducerIdBlock
from ottla.errors import ErrorCode, KafkaError
from ottla.model import ControllerEpoch, format_topic_id, new_topic_id
from ottla.store.interface import Check, Create, Delete, Node, Op, Set

PRODUCER_IDS_PER_BLOCK = 1000
MAX_PRODUCER_ID = 2**63 - 1


def register_broker(broker_id: int, broker: BrokerZnode) -> list[Op]:
    """The registration lasts as long as the session. A conflict means that another broker with this id is alive."""
    return [Create(znodes.broker_path(broker_id), znodes.encode_broker(broker), ephemeral=True)]


def create_cluster_id(random_bytes: Callable[[int], bytes]) -> tuple[list[Op], str]:
    """A conflict means that another broker has already set the id."""
    cluster_id = format_topic_id(new_topic_id(random_bytes(16)))
    return [Create(znodes.CLUSTER_ID, znodes.encode_cluster_id(cluster_id))], cluster_id


def elect_controller(image: ClusterImage, broker_id: int, time_ms: int) -> tuple[list[Op], ControllerEpoch]:
    """Become the controller and take the next epoch in one step, so that no two controllers share an epoch.

    A damaged controller node that no session owns is replaced. A conflict means that another broker is the
    controller, or that the image was old.
    """
    epoch = ControllerEpoch(image.controller_epoch + 1)
    data = znodes.encode_controller_epoch(epoch)
    ops: list[Op] = [Delete(znodes.CONTROLLER)] if znodes.CONTROLLER in image.damaged else []
    ops.append(Create(znodes.CONTROLLER, znodes.encode_controller(broker_id, time_ms), ephemeral=True))
    if image.controller_epoch_version == NO_VERSION:
        return [*ops, Create(znodes.CONTROLLER_EPOCH, data)], epoch
    return [*ops, Set(znodes.CONTROLLER_EPOCH, data, image.controller_epoch_version)], epoch


def resign_controller(image: ClusterImage) -> list[Op]:
    """A conflict means that another broker is the controller already."""
    return [Check(znodes.CONTROLLER_EPOCH, image.controller_epoch_version), Delete(znodes.CONTROLLER)]


def allocate_producer_ids(node: Node | None, broker_id: int) -> tuple[list[Op], int, int]:
    """The next block of producer ids: operations, first and last id. `node` is the node at PRODUCER_ID_BLOCK.

    A conflict means that another broker took the block: read the node and decide again. Raises InvalidZnodeError.
    """
    start = 0 if node is None else znodes.decode_producer_id_block(node.data).end + 1
    end = start + PRODUCER_IDS_PER_BLOCK - 1
    if end > MAX_PRODUCER_ID:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "All producer ids have been allocated.")
    data = znodes.encode_producer_id_block(ProducerIdBlock(broker_id, start, end))
    if node is None:
        return [Create(znodes.PRODUCER_ID_BLOCK, data)], start, end
    return [Set(znodes.PRODUCER_ID_BLOCK, data, node.version)], start, end
