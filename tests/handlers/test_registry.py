"""What Ottla advertises is what Apache Kafka 4.3 advertises, for the APIs it serves."""

from ottla.handlers.registry import HANDLERS

KAFKA = {
    0: ("Produce", 0, 13),
    1: ("Fetch", 4, 18),
    2: ("ListOffsets", 1, 11),
    3: ("Metadata", 0, 13),
    8: ("OffsetCommit", 2, 10),
    9: ("OffsetFetch", 1, 10),
    10: ("FindCoordinator", 0, 6),
    11: ("JoinGroup", 0, 9),
    12: ("Heartbeat", 0, 4),
    13: ("LeaveGroup", 0, 5),
    14: ("SyncGroup", 0, 5),
    15: ("DescribeGroups", 0, 6),
    16: ("ListGroups", 0, 5),
    18: ("ApiVersions", 0, 4),
    19: ("CreateTopics", 2, 7),
    20: ("DeleteTopics", 1, 6),
    21: ("DeleteRecords", 0, 2),
    22: ("InitProducerId", 0, 5),
    23: ("OffsetForLeaderEpoch", 2, 4),
    24: ("AddPartitionsToTxn", 0, 5),
    25: ("AddOffsetsToTxn", 0, 4),
    26: ("EndTxn", 0, 5),
    27: ("WriteTxnMarkers", 1, 2),
    28: ("TxnOffsetCommit", 0, 5),
    32: ("DescribeConfigs", 1, 4),
    33: ("AlterConfigs", 0, 2),
    34: ("AlterReplicaLogDirs", 1, 2),
    35: ("DescribeLogDirs", 1, 5),
    37: ("CreatePartitions", 0, 3),
    42: ("DeleteGroups", 0, 2),
    43: ("ElectLeaders", 0, 2),
    44: ("IncrementalAlterConfigs", 0, 1),
    45: ("AlterPartitionReassignments", 0, 1),
    46: ("ListPartitionReassignments", 0, 0),
    47: ("OffsetDelete", 0, 0),
    60: ("DescribeCluster", 0, 2),
    61: ("DescribeProducers", 0, 0),
    65: ("DescribeTransactions", 0, 0),
    66: ("ListTransactions", 0, 2),
    68: ("ConsumerGroupHeartbeat", 0, 1),
    74: ("ListConfigResources", 0, 1),
    75: ("DescribeTopicPartitions", 0, 0),
}


def test_ranges_are_those_of_kafka() -> None:
    assert {key: (s.api.name, s.advertised_from, s.api.max_version) for key, s in HANDLERS.items()} == KAFKA


def test_only_produce_is_advertised_below_what_is_served() -> None:
    """Old librdkafka wants to see Produce 0 (KAFKA-18659); Kafka refuses it as well."""
    below = {key for key, served in HANDLERS.items() if served.advertised_from != served.api.min_version}
    assert below == {0}
    assert HANDLERS[0].api.min_version == 3


def test_every_handler_takes_the_request_of_its_api() -> None:
    for key, served in HANDLERS.items():
        assert served.request.api_key == served.api.key == key
        assert served.api.response.api_key == key
