import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.cluster import znodes
from ottla.cluster.configs import replace_configs
from ottla.cluster.image import (
    DEFAULT_BROKER,
    NO_CONTROLLER,
    NO_VERSION,
    ClusterImage,
    Entity,
    EntityType,
    image_from_tree,
)
from ottla.cluster.topics import create_partitions, create_topic, delete_topic
from ottla.cluster.znodes import NO_LEADER, PartitionStateZnode, TopicZnode
from ottla.model import NO_LEADER_EPOCH, ControllerEpoch, LeaderEpoch, TopicId
from ottla.store.interface import Node, Put
from tests.cluster.clusters import Cluster


def node(data: bytes, version: int = 0, created: int = 1) -> Node:
    return Node(data, version, None, created)


def test_an_image_of_a_small_cluster() -> None:
    cluster = Cluster(brokers=2, racks=["a", "b"])
    ops, topic = create_topic(
        cluster.image,
        "clicks",
        partitions=3,
        replication_factor=2,
        configs={"retention.ms": "1"},
        random_bytes=cluster.random.randbytes,
    )
    cluster.do(ops)
    cluster.do(replace_configs(cluster.image, DEFAULT_BROKER, {"log.retention.ms": "5"}))
    cluster.do(replace_configs(cluster.image, Entity(EntityType.BROKER, "1"), {"background.threads": "2"}))
    cluster.do(replace_configs(cluster.image, Entity(EntityType.GROUP, "a/b"), {"consumer.session.timeout.ms": "9"}))
    image = cluster.image
    assert image.topics["clicks"] == image.topic_by_id(topic.topic_id) == topic
    assert image.partition("clicks", 2) == topic.partitions[2]
    assert image.partition("clicks", 3) is image.partition("clicks", -1) is image.partition("other", 0) is None
    assert image.topic_by_id(TopicId(bytes(16))) is None
    assert image.topic_config("clicks") == {"retention.ms": "1"}
    assert image.topic_config("other") == {}
    assert image.default_broker_config() == {"log.retention.ms": "5"}
    assert image.broker_config(1) == {"background.threads": "2"}
    assert image.config(Entity(EntityType.GROUP, "a/b")) == {"consumer.session.timeout.ms": "9"}
    assert (image.controller_id, image.controller_epoch) == (1, 1)
    assert image.cluster_id is not None
    assert [broker.rack for broker in image.brokers.values()] == ["a", "b"]
    assert image.brokers[2].epoch > image.brokers[1].epoch
    endpoint = image.brokers[1].endpoint("PLAINTEXT")
    assert endpoint is not None
    assert (endpoint.host, endpoint.port) == ("host1", 9092)
    assert image.brokers[1].endpoint("SSL") is None


def test_what_is_gone_is_gone_from_the_image() -> None:
    cluster = Cluster(brokers=2)
    cluster.do(create_topic(cluster.image, "t", random_bytes=cluster.random.randbytes)[0])
    group = Entity(EntityType.GROUP, "g")
    cluster.do(replace_configs(cluster.image, group, {"k": "v"}))
    cluster.do([Put(znodes.delete_topic_path("t"), b"")])
    assert cluster.image.topics_to_delete == {"t"}
    cluster.do(replace_configs(cluster.image, group, {}))
    assert group not in cluster.image.configs
    cluster.do(delete_topic(cluster.image, "t"))
    image = cluster.image
    assert (image.topics, image.topics_by_id, image.configs, image.strays) == ({}, {}, {}, {})
    assert image.topics_to_delete == frozenset()
    cluster.leave(1)
    assert set(cluster.image.brokers) == {2}
    assert cluster.image.controller_id == NO_CONTROLLER
    assert cluster.image.controller_epoch == 1


def test_a_broker_that_comes_back_has_a_new_epoch() -> None:
    cluster = Cluster(brokers=1)
    before = cluster.image.brokers[1].epoch
    cluster.leave(1)
    cluster.join(1)
    assert cluster.image.brokers[1].epoch > before


def test_untouched_topics_are_shared() -> None:
    cluster = Cluster(brokers=1)
    for name in ("a", "b"):
        cluster.do(create_topic(cluster.image, name, partitions=2, random_bytes=cluster.random.randbytes)[0])
    before = cluster.image
    cluster.do(create_partitions(cluster.image, "b", 3)[0])
    after = cluster.image
    assert after.topics["a"] is before.topics["a"]
    assert after.brokers is before.brokers
    assert after.configs is before.configs
    assert after.topics["b"].partitions[0] == before.topics["b"].partitions[0]
    assert len(before.topics["b"].partitions) == 2
    assert len(after.topics["b"].partitions) == 3


TOPIC_ID = TopicId(b"0123456789abcdef")
STATE = node(znodes.encode_partition_state(PartitionStateZnode(1, LeaderEpoch(4), (1,), ControllerEpoch(2))), version=9)


def topic_node(partitions: int) -> Node:
    return node(znodes.encode_topic(TopicZnode(TOPIC_ID, dict.fromkeys(range(partitions), (1,)), {}, {})))


def test_without_a_leader_everything_else_stays() -> None:
    cluster = Cluster(2)
    for name, leader in ("mine", 1), ("theirs", 2):
        assignment = {0: [leader, 3 - leader]}
        cluster.do(create_topic(cluster.image, name, assignment=assignment, random_bytes=cluster.random.randbytes)[0])
    fenced = cluster.image.without_leader(1)
    mine, before = fenced.topics["mine"], cluster.image.topics["mine"]
    assert mine.partitions[0] == before.partitions[0]._replace(leader=-1)
    assert fenced.topic_by_id(before.topic_id) is mine
    assert fenced.topics["theirs"] is cluster.image.topics["theirs"]
    assert cluster.image.topics["mine"].partitions[0].leader == 1


def test_a_partition_without_a_state_has_no_leader() -> None:
    image = image_from_tree({"/brokers/topics/t": topic_node(1)})
    partition = image.partition("t", 0)
    assert partition is not None
    assert (partition.leader, partition.leader_epoch, partition.isr) == (NO_LEADER, NO_LEADER_EPOCH, ())
    assert partition.version == NO_VERSION


def test_a_state_that_comes_before_its_topic_is_kept() -> None:
    late = ClusterImage().updated({"/brokers/topics/t/partitions/0/state": STATE})
    assert late.topics == {}
    image = late.updated({"/brokers/topics/t": topic_node(1)})
    partition = image.partition("t", 0)
    assert partition is not None
    assert (partition.leader, partition.leader_epoch, partition.isr, partition.version) == (1, 4, (1,), 9)
    assert partition.controller_epoch == 2
    assert image.strays == {}


def test_foreign_nodes_are_ignored() -> None:
    paths = ["/", "/brokers", "/brokers/ids", "/brokers/ids/x", "/brokers/topics/t/partitions/x/state", "/zookeeper",
             "/config/users/u", "/config/topics", "/brokers/seqid", "/admin/delete_topics"]  # fmt: skip
    assert image_from_tree({path: node(b"nonsense") for path in paths}) == ClusterImage()


def arbitrary_nodes() -> dict[str, st.SearchStrategy[Node | None]]:
    def of(*datas: bytes) -> st.SearchStrategy[Node | None]:
        return st.builds(node, st.sampled_from(datas), st.integers(0, 3)) | st.none()

    states = [
        znodes.encode_partition_state(PartitionStateZnode(leader, LeaderEpoch(1), (leader,), ControllerEpoch(1)))
        for leader in (1, 2)
    ]
    kinds: dict[str, st.SearchStrategy[Node | None]] = {
        "/controller": of(znodes.encode_controller(1, 0), znodes.encode_controller(2, 0)),
        "/controller_epoch": of(b"1", b"2"),
        "/cluster/id": of(znodes.encode_cluster_id("x")),
        "/config/brokers/<default>": of(znodes.encode_config({"a": "1"}), znodes.encode_config({})),
        "/admin/delete_topics/t0": of(b""),
    }
    for index in range(2):
        ids = [TopicId(bytes([index, generation]) * 8) for generation in range(2)]
        topics = [
            znodes.encode_topic(TopicZnode(i, dict.fromkeys(range(n), (1, 2)), {}, {})) for i in ids for n in (1, 2)
        ]
        kinds[f"/brokers/topics/t{index}"] = of(*topics)
        for partition in range(3):
            kinds[f"/brokers/topics/t{index}/partitions/{partition}/state"] = of(*states)
    return kinds


@settings(max_examples=100)
@given(st.lists(st.fixed_dictionaries({}, optional=arbitrary_nodes()), max_size=5))
def test_following_changes_ends_where_reading_everything_ends(steps: list[dict[str, Node | None]]) -> None:
    tree: dict[str, Node] = {}
    image = ClusterImage()
    for changed in steps:
        tree = {path: value for path, value in (tree | changed).items() if value is not None}
        image = image.updated(changed)
        assert image == image_from_tree(tree)
        assert image.topics_by_id == {topic.topic_id: topic for topic in image.topics.values()}


def test_one_change_among_thousands_reads_one_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted, not timed: the cost of a change must not grow with the number of topics."""
    cluster = Cluster(brokers=1)
    randomness = random.Random(1)
    for number in range(200):
        cluster.tree.commit(
            create_topic(cluster.image, f"t{number}", partitions=5, random_bytes=randomness.randbytes)[0], 0
        )
    cluster.follow()
    assert sum(len(topic.partitions) for topic in cluster.image.topics.values()) == 1000
    reads: list[bytes] = []

    def counted(reader: Callable[[bytes], object]) -> Callable[[bytes], object]:
        def read(data: bytes) -> object:
            reads.append(data)
            return reader(data)

        return read

    for name in ("decode_topic", "decode_partition_state", "decode_config"):
        monkeypatch.setattr(znodes, name, counted(getattr(znodes, name)))
    cluster.do(create_topic(cluster.image, "new", partitions=2, random_bytes=randomness.randbytes)[0])
    assert len(cluster.image.topics) == 201
    assert len(reads) == 4
