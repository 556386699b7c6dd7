"""The nodes as Kafka's brokers write them, byte by byte, and the errors for other data."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cluster import znodes
from ottla.cluster.znodes import (
    BrokerZnode,
    Endpoint,
    InvalidZnodeError,
    PartitionStateZnode,
    ProducerIdBlock,
    TopicZnode,
)
from ottla.model import ControllerEpoch, LeaderEpoch, TopicId, parse_topic_id
from ottla.store.interface import check_path

PLAIN_BROKER = (
    b'{"features":{},"listener_security_protocol_map":{"INTERNAL":"PLAINTEXT","EXTERNAL":"SASL_SSL"},'
    b'"endpoints":["INTERNAL://kafka3:29092","EXTERNAL://[::1]:9092"],"jmx_port":-1,"port":29092,"host":"kafka3",'
    b'"version":5,"timestamp":"1731163180710"}'
)
RACK_BROKER = (
    b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":["PLAINTEXT://a:9092"],'
    b'"rack":"/default-rack","jmx_port":-1,"port":9092,"host":"a","version":5,"timestamp":"1"}'
)
GOLDEN: list[tuple[Callable[[Any], bytes], Callable[[bytes], Any], Any, bytes]] = [
    (
        znodes.encode_broker,
        znodes.decode_broker,
        BrokerZnode(
            (Endpoint("INTERNAL", "kafka3", 29092, "PLAINTEXT"), Endpoint("EXTERNAL", "::1", 9092, "SASL_SSL")),
            None,
            1731163180710,
        ),
        PLAIN_BROKER,
    ),
    (
        znodes.encode_broker,
        znodes.decode_broker,
        BrokerZnode((Endpoint("PLAINTEXT", "a", 9092, "PLAINTEXT"),), "/default-rack", 1),
        RACK_BROKER,
    ),
    (
        znodes.encode_topic,
        znodes.decode_topic,
        TopicZnode(parse_topic_id("RSZ--odYRlSOPGRgukKnAQ"), {0: (3, 2), 1: (1, 3), 2: (2, 1)}, {}, {}),
        b'{"removing_replicas":{},"partitions":{"0":[3,2],"1":[1,3],"2":[2,1]},'
        b'"topic_id":"RSZ--odYRlSOPGRgukKnAQ","adding_replicas":{},"version":3}',
    ),
    (
        znodes.encode_topic,
        znodes.decode_topic,
        TopicZnode(parse_topic_id("RSZ--odYRlSOPGRgukKnAQ"), {0: (3, 2)}, {0: (3,)}, {0: (2,)}),
        b'{"removing_replicas":{"0":[2]},"partitions":{"0":[3,2]},'
        b'"topic_id":"RSZ--odYRlSOPGRgukKnAQ","adding_replicas":{"0":[3]},"version":3}',
    ),
    (
        znodes.encode_partition_state,
        znodes.decode_partition_state,
        PartitionStateZnode(
            leader=102, leader_epoch=LeaderEpoch(8), isr=(102, 103), controller_epoch=ControllerEpoch(33)
        ),
        b'{"controller_epoch":33,"leader":102,"version":1,"leader_epoch":8,"isr":[102,103]}',
    ),
    (znodes.encode_config, znodes.decode_config, {}, b'{"version":1,"config":{}}'),
    (
        znodes.encode_config,
        znodes.decode_config,
        {"retention.ms": "1000", "cleanup.policy": "compact,delete"},
        b'{"version":1,"config":{"retention.ms":"1000","cleanup.policy":"compact,delete"}}',
    ),
    (znodes.encode_controller_epoch, znodes.decode_controller_epoch, 7, b"7"),
    (
        znodes.encode_cluster_id,
        znodes.decode_cluster_id,
        "IOejp_IKSbWbySJc0sRrKw",
        b'{"version":"1","id":"IOejp_IKSbWbySJc0sRrKw"}',
    ),
    (
        znodes.encode_producer_id_block,
        znodes.decode_producer_id_block,
        ProducerIdBlock(0, 1000, 1999),
        b'{"version":1,"broker":0,"block_start":"1000","block_end":"1999"}',
    ),
    (znodes.encode_offset, znodes.decode_offset, 123456789012, b"123456789012"),
]


@pytest.mark.parametrize(("encode", "decode", "value", "data"), GOLDEN)
def test_golden(encode: Callable[[Any], bytes], decode: Callable[[bytes], Any], value: Any, data: bytes) -> None:
    assert encode(value) == data
    assert decode(data) == value


def test_controller() -> None:
    data = b'{"version":2,"brokerid":101,"timestamp":"1707276552920","kraftControllerEpoch":-1}'
    assert znodes.encode_controller(101, 1707276552920) == data
    assert znodes.decode_controller(data) == 101


def test_older_nodes_are_understood() -> None:
    assert znodes.decode_controller(b'{"version":1,"brokerid":0,"timestamp":"1535943857541"}') == 0
    broker = znodes.decode_broker(
        b'{"jmx_port":-1,"timestamp":"1571666399659","endpoints":["PLAINTEXT://node4:6667"],"host":"node4","version":3,'
        b'"port":6667,"rack":"/default-rack"}'
    )
    assert broker == BrokerZnode((Endpoint("PLAINTEXT", "node4", 6667, "PLAINTEXT"),), "/default-rack", 1571666399659)


READERS = [
    znodes.decode_broker,
    znodes.decode_topic,
    znodes.decode_partition_state,
    znodes.decode_config,
    znodes.decode_controller,
    znodes.decode_controller_epoch,
    znodes.decode_cluster_id,
    znodes.decode_producer_id_block,
    znodes.decode_offset,
]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("data", [b"", b"null", b"[]", b"{}", b"{", b"\xff\xfe", b'"x"', b"[" * 100_000])
def test_anything_else_is_refused(read: Callable[[bytes], Any], data: bytes) -> None:
    with pytest.raises(InvalidZnodeError, match="not a "):
        read(data)


@pytest.mark.parametrize(
    "data",
    [
        b'{"topic_id":"short","partitions":{"0":[1]}}',
        b'{"topic_id":"RSZ--odYRlSOPGRgukKnAQ","partitions":{"0":[1],"2":[1]}}',
        b'{"topic_id":"RSZ--odYRlSOPGRgukKnAQ","partitions":{"0":[]}}',
        b'{"topic_id":"RSZ--odYRlSOPGRgukKnAQ","partitions":{"0":["1"]}}',
        b'{"topic_id":"RSZ--odYRlSOPGRgukKnAQ","partitions":{"x":[1]}}',
        b'{"topic_id":"RSZ--odYRlSOPGRgukKnAQ","partitions":{}}',
        b'{"topic_id":"RSZ--odYRlSOPGRgukKnAQ","partitions":{"0":[1,1]}}',
        b'{"topic_id":"RSZ--odYRlSOPGRgukKnAQ","partitions":{"0":[2147483648]}}',
    ],
)
def test_impossible_topics_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidZnodeError):
        znodes.decode_topic(data)


@pytest.mark.parametrize("number", ["1e999", "2147483648", "-2147483649", "NaN"])
def test_numbers_that_no_client_could_be_told_are_refused(number: str) -> None:
    state = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":%s,"isr":[1]}' % number.encode()
    with pytest.raises(InvalidZnodeError):
        znodes.decode_partition_state(state)


def test_text_that_no_client_could_be_told_is_refused() -> None:
    with pytest.raises(InvalidZnodeError):
        znodes.decode_config(b'{"version":1,"config":{"k":"\\ud800"}}')
    assert znodes.decode_config(b'{"version":1,"config":{"k":"\\u00e9"}}') == {"k": "é"}


names = st.text(max_size=20) | st.text("./%<>~ ", max_size=4)


@given(names, names)
def test_any_name_becomes_one_segment_of_its_own(name: str, other: str) -> None:
    segment = znodes.encode_name(name)
    assert "/" not in segment
    check_path(f"/consumers/{segment}/offsets")
    assert znodes.decode_name(segment) == name
    assert (znodes.encode_name(other) == segment) == (other == name)


def test_names_are_shown_as_they_are_when_they_can_be() -> None:
    assert znodes.encode_name("my-group_1.x") == "my-group_1.x"
    assert znodes.encode_name("<default>") == "<default>"
    assert znodes.encode_name("a/b c") == "a%2Fb%20c"
    assert znodes.encode_name("..") == "%2E%2E"
    assert znodes.encode_name("") == "%"
    assert znodes.offset_path("g/1", "clicks", 2) == "/consumers/g%2F1/offsets/clicks/2"


@pytest.mark.parametrize("segment", ["%zz", "a%", "%F", "%FF", "%%"])
def test_segments_that_are_no_names(segment: str) -> None:
    with pytest.raises(InvalidZnodeError, match="not an encoded name"):
        znodes.decode_name(segment)


broker_ids = st.lists(st.integers(0, 9), min_size=1, unique=True).map(tuple)
replicas = st.dictionaries(st.integers(0, 50), broker_ids)


@given(st.binary(min_size=16, max_size=16), st.lists(broker_ids, min_size=1), replicas)
def test_topics_come_back(raw: bytes, partitions: list[tuple[int, ...]], moving: dict[int, tuple[int, ...]]) -> None:
    topic = TopicZnode(TopicId(raw), dict(enumerate(partitions)), moving, moving)
    assert znodes.decode_topic(znodes.encode_topic(topic)) == topic


@given(st.dictionaries(st.text(), st.text(st.characters(exclude_categories=["Cs"]))))
def test_configs_come_back(config: dict[str, str]) -> None:
    assert znodes.decode_config(znodes.encode_config(config)) == config
