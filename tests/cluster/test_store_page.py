"""The worked example in docs/formats/store.md matches the code."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ottla.cluster import znodes
from ottla.cluster.image import image_from_tree
from ottla.store.interface import Node, check_path

PAGE = Path(__file__).parents[2] / "docs" / "formats" / "store.md"


def example() -> dict[str, bytes]:
    block = PAGE.read_text(encoding="utf-8").split("```")[1]
    lines = [line.partition(" ") for line in block.strip().splitlines()]
    return {check_path(path): data.encode() for path, _, data in lines}


def test_the_example_is_an_image() -> None:
    image = image_from_tree({path: Node(data, 0, None, 5) for path, data in example().items()})
    assert image.cluster_id == "IOejp_IKSbWbySJc0sRrKw"
    assert (image.controller_id, image.controller_epoch) == (1, 1)
    assert (image.brokers[1].rack, image.brokers[1].epoch) == ("r1", 5)
    assert [state.leader_epoch for state in image.topics["clicks"].partitions] == [0, 3]
    assert image.topic_config("clicks") == {"cleanup.policy": "compact"}
    assert image.default_broker_config() == {"log.retention.ms": "86400000"}
    assert znodes.decode_offset(example()[znodes.offset_path("team a", "clicks", 0)]) == 42


CODECS: list[tuple[str, Callable[[bytes], Any], Callable[[Any], bytes]]] = [
    (znodes.broker_path(1), znodes.decode_broker, znodes.encode_broker),
    (znodes.topic_path("clicks"), znodes.decode_topic, znodes.encode_topic),
    (znodes.partition_state_path("clicks", 0), znodes.decode_partition_state, znodes.encode_partition_state),
    (znodes.partition_state_path("clicks", 1), znodes.decode_partition_state, znodes.encode_partition_state),
    (znodes.CLUSTER_ID, znodes.decode_cluster_id, znodes.encode_cluster_id),
    (znodes.config_path("brokers", znodes.DEFAULT_ENTITY), znodes.decode_config, znodes.encode_config),
    (znodes.config_path("topics", "clicks"), znodes.decode_config, znodes.encode_config),
    (znodes.offset_path("team a", "clicks", 0), znodes.decode_offset, znodes.encode_offset),
    (znodes.CONTROLLER, znodes.decode_controller, lambda broker: znodes.encode_controller(broker, 1700000000000)),
    (znodes.CONTROLLER_EPOCH, znodes.decode_controller_epoch, znodes.encode_controller_epoch),
    (znodes.PRODUCER_ID_BLOCK, znodes.decode_producer_id_block, znodes.encode_producer_id_block),
]


def test_the_example_is_written_like_this() -> None:
    nodes = example()
    assert {path: encode(decode(nodes[path])) for path, decode, encode in CODECS} == nodes
