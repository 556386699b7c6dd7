"""Steps of an operator's day on brokers that are processes: look, create topics, fill them, add a broker."""

from collections import Counter

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.cli.admin import Cluster
from ottla.cli.cluster_admin import ClusterAdmin
from tests.cli.conftest import Cli
from tests.compat.processes import BrokerProcess
from tests.server.zookeeper_cluster import ProcessCluster, eventually

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")


def join(cluster: ProcessCluster, broker_id: int) -> None:
    like = next(iter(cluster.brokers.values()))
    settings = {**like.settings, "node.id": str(broker_id)}
    cluster.brokers[broker_id] = BrokerProcess(like.data_dir.with_name(f"broker-{broker_id}"), settings)
    cluster.brokers[broker_id].start()
    eventually(lambda: broker_id in {it.id for it in look(cluster).brokers}, f"broker {broker_id} is in the cluster")


def look(cluster: ProcessCluster) -> Cluster:
    return ClusterAdmin(cluster.bootstrap_servers, None).cluster()


def create(cluster: ProcessCluster, name: str, *replicas: list[int]) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    topic = NewTopic(name, len(replicas), replica_assignment=list(replicas))
    admin.create_topics([topic])[name].result(30)
    eventually(lambda: is_in_sync(cluster, name, len(replicas)), f"all replicas of {name} are in sync")


def is_in_sync(cluster: ProcessCluster, name: str, partitions: int) -> bool:
    found = [it for key, it in look(cluster).partitions.items() if key.topic == name]
    return len(found) == partitions and all(len(it.in_sync) == len(it.assigned) for it in found)


def fill(cluster: ProcessCluster, topic: str, partitions: int, megabytes: int) -> int:
    """Write the same to each partition. Returns the number of records."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "log_level": 0})
    for number in range(megabytes * 250):
        for partition in range(partitions):
            producer.produce(topic, f"{number:06d}{'x' * 4000}", partition=partition)
    assert producer.flush(60) == 0
    return megabytes * 250 * partitions


def replica_counts(cluster: ProcessCluster) -> Counter[int]:
    return Counter(broker for it in look(cluster).partitions.values() for broker in it.assigned)


def throttles(cli: Cli, topic: str, brokers: list[int]) -> list[str]:
    found = [entry["name"] for entry in cli.json("configs", "describe", "--topic", topic)]
    for broker in brokers:
        found += [it["name"] for it in cli.json("configs", "describe", "--broker", str(broker)) if it["name"] in RATES]
    return found
