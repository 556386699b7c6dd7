"""A damaged node delays only its own updates. The rest of the image stays current."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cluster import znodes
from ottla.cluster.configs import replace_configs
from ottla.cluster.elections import ElectionType, elect_leader, restore_preferred
from ottla.cluster.failover import commits, lead_without
from ottla.cluster.image import (
    NO_CONTROLLER,
    UNKNOWN_VERSION,
    ClusterImage,
    Entity,
    EntityType,
    image_from_tree,
)
from ottla.cluster.reassignment import alter_reassignments
from ottla.cluster.registration import elect_controller
from ottla.cluster.topics import create_partitions, create_topic, delete_topic
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.store.interface import Changes, Delete, Node, Put
from tests.cluster.clusters import Cluster

NONSENSE = b"nonsense"
STATE_PATH = znodes.partition_state_path("t", 0)
PATHS = [
    znodes.broker_path(1),
    znodes.topic_path("t"),
    STATE_PATH,
    znodes.config_path("topics", "t"),
    znodes.CONTROLLER,
    znodes.CONTROLLER_EPOCH,
    znodes.CLUSTER_ID,
]


def node(data: bytes, version: int = 0, owner: int | None = None) -> Node:
    return Node(data, version, owner, 1)


def a_cluster() -> Cluster:
    """Two brokers; `t` has one partition, which broker 1 leads."""
    cluster = Cluster(brokers=2)
    add(cluster, "t")
    cluster.do(replace_configs(cluster.image, Entity(EntityType.TOPIC, "t"), {"retention.ms": "1"}))
    return cluster


def add(cluster: Cluster, name: str) -> None:
    cluster.do(create_topic(cluster.image, name, assignment={0: [1, 2]}, random_bytes=cluster.random.randbytes)[0])


def without_damage(image: ClusterImage) -> tuple[object, ...]:
    """The parts of the image that brokers act on, without the versions of nodes."""
    topics = {
        name: (topic.topic_id, [state._replace(version=0) for state in topic.partitions])
        for name, topic in image.topics.items()
    }
    configs = {entity: state.values for entity, state in image.configs.items()}
    brokers = {broker.broker_id: broker.endpoints for broker in image.brokers.values()}
    return topics, configs, brokers, image.cluster_id, image.controller_id, image.controller_epoch


@pytest.mark.parametrize("path", PATHS)
def test_the_last_good_value_stays_until_the_node_is_mended(path: str) -> None:
    cluster = a_cluster()
    before = cluster.image
    good = cluster.nodes[path].data
    cluster.do([Put(path, NONSENSE)])
    image = cluster.image
    assert list(image.damaged) == [path]
    assert "nonsense" in image.damaged[path]
    assert without_damage(image) == without_damage(before)
    add(cluster, "other")
    assert "other" in cluster.image.topics
    assert list(cluster.image.damaged) == [path]
    cluster.do([Put(path, good)])
    assert cluster.image.damaged == {}
    cluster.do(delete_topic(cluster.image, "other"))
    assert without_damage(cluster.image) == without_damage(before)


@pytest.mark.parametrize("path", PATHS)
def test_reading_everything_again_forgets_no_last_good_value(path: str) -> None:
    cluster = a_cluster()
    before = cluster.image
    cluster.do([Put(path, NONSENSE)])
    again = cluster.image.advanced(Changes(9, dict(cluster.nodes), complete=True))
    assert list(again.damaged) == [path]
    assert without_damage(again) == without_damage(before)
    gone = cluster.image.advanced(Changes(9, {}, complete=True))
    assert gone == ClusterImage(revision=9)


@pytest.mark.parametrize("path", [*PATHS, "/config/topics/nosuch", "/config/topics/%zz", "/brokers/topics/a b"])
def test_a_broker_that_starts_has_everything_else(path: str) -> None:
    cluster = a_cluster()
    image = image_from_tree(cluster.nodes | {path: node(NONSENSE)})
    assert list(image.damaged) == [path]
    assert set(image.brokers) == ({2} if path == znodes.broker_path(1) else {1, 2})
    assert set(image.topics) == (set() if path == znodes.topic_path("t") else {"t"})
    assert image.controller_epoch_version >= 0


def test_a_damaged_node_that_is_gone_is_no_damage() -> None:
    cluster = a_cluster()
    cluster.do([Put("/config/topics/nosuch", NONSENSE)])
    assert list(cluster.image.damaged) == ["/config/topics/nosuch"]
    cluster.do([Delete("/config/topics/nosuch")])
    assert cluster.image.damaged == {}


def test_a_partition_whose_state_is_damaged_gets_another_leader_which_mends_it() -> None:
    cluster = a_cluster()
    epoch = cluster.image.topics["t"].partitions[0].leader_epoch
    for _ in range(2):
        cluster.do([Put(STATE_PATH, NONSENSE)])
    cluster.leave(1)
    cluster.become_controller(2)
    for ops in commits(cluster.image, lead_without(cluster.image, lambda _: False)):
        cluster.do(ops)
    state = cluster.image.topics["t"].partitions[0]
    assert (state.leader, state.leader_epoch, state.isr) == (2, epoch + 1, (2,))
    assert cluster.image.damaged == {}


def test_nobody_decides_on_a_state_that_nobody_has_read() -> None:
    """Another leader may have been elected between the last good value and the damage."""
    cluster = a_cluster()
    add(cluster, "other")
    state = cluster.nodes[STATE_PATH]
    image = cluster.image.updated({STATE_PATH: node(NONSENSE, state.version + 2), znodes.broker_path(1): None})
    assert image.topics["t"].partitions[0].version == UNKNOWN_VERSION
    assert [partition for partition, _ in lead_without(image, lambda _: True)] == [TopicPartition("other", 0)]
    back = image.updated({znodes.broker_path(1): cluster.nodes[znodes.broker_path(1)]})
    assert restore_preferred(back) == []
    for election in ElectionType:
        with pytest.raises(KafkaError, match="damaged"):
            elect_leader(image, TopicPartition("t", 0), election)
    _, refused = alter_reassignments(image, "t", {0: [2, 1]}, allow_factor_change=False, allows_unclean=False)
    assert "damaged" in str(refused[0])
    assert delete_topic(image, "t")


def test_a_topic_whose_node_nobody_has_read() -> None:
    cluster = a_cluster()
    topic = cluster.nodes[znodes.topic_path("t")]
    image = cluster.image.updated({znodes.topic_path("t"): node(NONSENSE, topic.version + 2)})
    with pytest.raises(KafkaError, match="damaged"):
        create_partitions(image, "t", 2)
    assert Delete(znodes.topic_path("t"), None) in delete_topic(image, "t")
    fresh = image_from_tree(cluster.nodes | {znodes.topic_path("t"): node(NONSENSE)})
    with pytest.raises(KafkaError, match="damaged") as refusal:
        create_topic(fresh, "t", random_bytes=cluster.random.randbytes)
    assert refusal.value.code is ErrorCode.TOPIC_ALREADY_EXISTS


def test_setting_a_value_mends_a_damaged_configuration() -> None:
    cluster = a_cluster()
    entity = Entity(EntityType.TOPIC, "t")
    cluster.do([Put(znodes.config_path("topics", "t"), NONSENSE)])
    cluster.do(replace_configs(cluster.image, entity, {**cluster.image.config(entity), "segment.ms": "5"}))
    assert cluster.image.config(entity) == {"retention.ms": "1", "segment.ms": "5"}
    assert cluster.image.damaged == {}


def test_two_topics_with_one_id() -> None:
    cluster = a_cluster()
    copy = znodes.topic_path("copy")
    cluster.do([Put(copy, cluster.nodes[znodes.topic_path("t")].data)])
    assert cluster.image.damaged == {copy: "it has the topic id of t"}
    cluster.do([Put(znodes.topic_path("t"), cluster.nodes[copy].data)])
    assert set(cluster.image.topics) == {"t"}
    cluster.do([Delete(copy)])
    assert cluster.image.damaged == {}


def test_a_controller_node_that_no_session_owns_is_replaced() -> None:
    cluster = a_cluster()
    cluster.leave(1)
    cluster.do([Put(znodes.CONTROLLER, NONSENSE)])
    assert cluster.image.controller_id == NO_CONTROLLER
    cluster.do(elect_controller(cluster.image, 2, 0)[0], session=cluster.sessions[2])
    assert cluster.image.controller_id == 2
    assert cluster.image.damaged == {}


def test_an_election_mends_the_controller_epoch() -> None:
    cluster = a_cluster()
    epoch = cluster.image.controller_epoch
    cluster.do([Put(znodes.CONTROLLER_EPOCH, NONSENSE)])
    add(cluster, "other")
    cluster.leave(1)
    cluster.become_controller(2)
    assert (cluster.image.controller_epoch, cluster.image.damaged) == (epoch + 1, {})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
FIELDS = [
    *("partitions", "topic_id", "adding_replicas", "removing_replicas", "leader", "leader_epoch", "isr", "config"),
    *("controller_epoch", "brokerid", "id", "endpoints", "timestamp", "rack", "listener_security_protocol_map"),
]


@given(
    st.dictionaries(
        st.sampled_from([*PATHS, "/config/brokers/<default>", "/config/x/y", "/brokers/ids/007"]),
        st.binary(max_size=20)
        | json_values.map(lambda value: znodes._encode({"x": value}))
        | st.dictionaries(st.sampled_from(FIELDS), json_values).map(znodes._encode),
    )
)
def test_no_data_stops_an_image(written: dict[str, bytes]) -> None:
    cluster = a_cluster()
    changed: dict[str, Node | None] = {path: node(data, version=7) for path, data in written.items()}
    image = cluster.image.updated(changed)
    image = image.advanced(Changes(5, {**cluster.nodes, **changed}, complete=True))
    image.updated(dict(cluster.nodes)).without_leader(1)
