"""The table of Ottla's APIs, with the version ranges of Kafka 4.3.

One module per API declares its request and response. The table imports them at their first use, so the import of one
API does not import the others.
"""

from ottla.wire.schema import Api

PRODUCE = Api(0, "Produce", 3, 13, 9)
FETCH = Api(1, "Fetch", 4, 18, 12)
LIST_OFFSETS = Api(2, "ListOffsets", 1, 11, 6)
METADATA = Api(3, "Metadata", 0, 13, 9)
OFFSET_COMMIT = Api(8, "OffsetCommit", 2, 10, 8)
OFFSET_FETCH = Api(9, "OffsetFetch", 1, 10, 6)
FIND_COORDINATOR = Api(10, "FindCoordinator", 0, 6, 3)
JOIN_GROUP = Api(11, "JoinGroup", 0, 9, 6)
HEARTBEAT = Api(12, "Heartbeat", 0, 4, 4)
LEAVE_GROUP = Api(13, "LeaveGroup", 0, 5, 4)
SYNC_GROUP = Api(14, "SyncGroup", 0, 5, 4)
DESCRIBE_GROUPS = Api(15, "DescribeGroups", 0, 6, 5)
LIST_GROUPS = Api(16, "ListGroups", 0, 5, 3)
API_VERSIONS = Api(18, "ApiVersions", 0, 4, 3)
CREATE_TOPICS = Api(19, "CreateTopics", 2, 7, 5)
DELETE_TOPICS = Api(20, "DeleteTopics", 1, 6, 4)
DELETE_RECORDS = Api(21, "DeleteRecords", 0, 2, 2)
INIT_PRODUCER_ID = Api(22, "InitProducerId", 0, 5, 2)
OFFSET_FOR_LEADER_EPOCH = Api(23, "OffsetForLeaderEpoch", 2, 4, 4)
ADD_PARTITIONS_TO_TXN = Api(24, "AddPartitionsToTxn", 0, 5, 3)
ADD_OFFSETS_TO_TXN = Api(25, "AddOffsetsToTxn", 0, 4, 3)
END_TXN = Api(26, "EndTxn", 0, 5, 3)
WRITE_TXN_MARKERS = Api(27, "WriteTxnMarkers", 1, 2, 1)
TXN_OFFSET_COMMIT = Api(28, "TxnOffsetCommit", 0, 5, 3)
DESCRIBE_CONFIGS = Api(32, "DescribeConfigs", 1, 4, 4)
ALTER_CONFIGS = Api(33, "AlterConfigs", 0, 2, 2)
ALTER_REPLICA_LOG_DIRS = Api(34, "AlterReplicaLogDirs", 1, 2, 2)
DESCRIBE_LOG_DIRS = Api(35, "DescribeLogDirs", 1, 5, 2)
CREATE_PARTITIONS = Api(37, "CreatePartitions", 0, 3, 2)
DELETE_GROUPS = Api(42, "DeleteGroups", 0, 2, 2)
ELECT_LEADERS = Api(43, "ElectLeaders", 0, 2, 2)
INCREMENTAL_ALTER_CONFIGS = Api(44, "IncrementalAlterConfigs", 0, 1, 1)
ALTER_PARTITION_REASSIGNMENTS = Api(45, "AlterPartitionReassignments", 0, 1, 0)
LIST_PARTITION_REASSIGNMENTS = Api(46, "ListPartitionReassignments", 0, 0, 0)
OFFSET_DELETE = Api(47, "OffsetDelete", 0, 0, None)
DESCRIBE_CLUSTER = Api(60, "DescribeCluster", 0, 2, 0)
DESCRIBE_PRODUCERS = Api(61, "DescribeProducers", 0, 0, 0)
DESCRIBE_TRANSACTIONS = Api(65, "DescribeTransactions", 0, 0, 0)
LIST_TRANSACTIONS = Api(66, "ListTransactions", 0, 2, 0)
CONSUMER_GROUP_HEARTBEAT = Api(68, "ConsumerGroupHeartbeat", 0, 1, 0)
LIST_CONFIG_RESOURCES = Api(74, "ListConfigResources", 0, 1, 0)
DESCRIBE_TOPIC_PARTITIONS = Api(75, "DescribeTopicPartitions", 0, 0, 0)

APIS: dict[int, Api] = {value.key: value for value in list(globals().values()) if isinstance(value, Api)}
