import pytest

from ottla.cluster.image import NO_CONTROLLER
from ottla.cluster.registration import (
    PRODUCER_IDS_PER_BLOCK,
    allocate_producer_ids,
    create_cluster_id,
    elect_controller,
    register_broker,
)
from ottla.cluster.znodes import PRODUCER_ID_BLOCK, ProducerIdBlock, encode_producer_id_block
from ottla.errors import KafkaError
from ottla.store.interface import Node, Put, Refusal, StoreConflictError
from tests.cluster.clusters import Cluster, broker_znode


def test_one_id_one_broker() -> None:
    cluster = Cluster(brokers=1)
    session = cluster.sessions[1]
    with pytest.raises(StoreConflictError) as caught:
        cluster.do(register_broker(1, broker_znode(1)), session + 1)
    assert caught.value.refusal is Refusal.EXISTS
    assert cluster.tree.nodes["/brokers/ids/1"].owner == session


def test_one_cluster_one_id() -> None:
    cluster = Cluster(brokers=0)
    first = cluster.image.cluster_id
    assert first is not None
    assert len(first) == 22
    ops, second = create_cluster_id(cluster.random.randbytes)
    assert second != first
    with pytest.raises(StoreConflictError):
        cluster.do(ops)


def test_controllers_never_share_an_epoch() -> None:
    cluster = Cluster(brokers=3)
    assert (cluster.image.controller_id, cluster.image.controller_epoch) == (1, 1)
    before = cluster.image
    with pytest.raises(StoreConflictError) as caught:
        cluster.do(elect_controller(before, 2, 0)[0], cluster.sessions[2])
    assert (caught.value.index, caught.value.refusal) == (0, Refusal.EXISTS)
    cluster.leave(1)
    assert cluster.image.controller_id == NO_CONTROLLER
    ops, epoch = elect_controller(cluster.image, 2, 0)
    too_late, _ = elect_controller(cluster.image, 3, 0)
    cluster.do(ops, cluster.sessions[2])
    assert (cluster.image.controller_id, cluster.image.controller_epoch, epoch) == (2, 2, 2)
    with pytest.raises(StoreConflictError):
        cluster.do(too_late, cluster.sessions[3])
    cluster.leave(2)
    with pytest.raises(StoreConflictError) as caught:
        cluster.do(too_late, cluster.sessions[3])
    assert (caught.value.index, caught.value.refusal) == (1, Refusal.VERSION)
    assert cluster.image.controller_id == NO_CONTROLLER


def test_producer_ids_come_in_blocks() -> None:
    cluster = Cluster(brokers=1)
    ops, start, end = allocate_producer_ids(None, 1)
    cluster.do(ops)
    assert (start, end) == (0, 999)
    node = cluster.tree.nodes[PRODUCER_ID_BLOCK]
    assert node.data == b'{"version":1,"broker":1,"block_start":"0","block_end":"999"}'
    ops, start, end = allocate_producer_ids(node, 2)
    rival, _, _ = allocate_producer_ids(node, 3)
    cluster.do(ops)
    assert (start, end) == (1000, 1999)
    assert end - start + 1 == PRODUCER_IDS_PER_BLOCK
    for late in (rival, allocate_producer_ids(None, 3)[0]):
        with pytest.raises(StoreConflictError):
            cluster.do(late)


def test_producer_ids_do_run_out() -> None:
    last = encode_producer_id_block(ProducerIdBlock(1, 2**63 - 2000, 2**63 - 1001))
    _, start, end = allocate_producer_ids(Node(last, 0, None, 0), 1)
    assert (start, end) == (2**63 - 1000, 2**63 - 1)
    cluster = Cluster(brokers=1)
    cluster.do([Put(PRODUCER_ID_BLOCK, encode_producer_id_block(ProducerIdBlock(1, start, end)))])
    with pytest.raises(KafkaError):
        allocate_producer_ids(cluster.tree.nodes[PRODUCER_ID_BLOCK], 1)
