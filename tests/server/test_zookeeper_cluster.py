"""Three brokers on a real ZooKeeper with faults: acknowledged records are never lost."""

import asyncio
import contextlib
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path

import pytest

from ottla.cli.zookeeper_server import ZooKeeperServer
from ottla.cluster.znodes import (
    CONTROLLER,
    CONTROLLER_EPOCH,
    decode_controller,
    decode_controller_epoch,
    decode_partition_state,
    partition_state_path,
)
from ottla.errors import ErrorCode
from ottla.wire.api.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from ottla.wire.api.produce import PartitionProduceResponse, ProduceResponse
from tests.compat.processes import BrokerProcess
from tests.server.small_disk import fill, small_disk
from tests.server.wire_client import PRODUCE_VERSION, WireClient, batch, produce, produce_request
from tests.server.zookeeper_cluster import SESSION_SECONDS, TOPIC, ProcessCluster, Writer, eventually, process_cluster
from tests.store.conftest import new_server
from tests.store.tcp_proxy import TcpProxy

NO_LEADER = -1
LOST = "the session with the store is lost"
AGAIN = "this broker has registered again"
CONNECTED = "connected to ZooKeeper"
LAG_SECONDS = 30.0
"""The default of `replica.lag.time.max.ms`."""
ZOMBIE = b"-1"
"""The value that a test writes to a replaced leader."""

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def zookeeper(tmp_path: Path) -> Iterator[ZooKeeperServer]:
    server = new_server(tmp_path / "zookeeper")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def cluster(tmp_path: Path, zookeeper: ZooKeeperServer) -> Iterator[ProcessCluster]:
    with process_cluster(tmp_path, zookeeper) as cluster:
        cluster.create_topic()
        yield cluster


def check(cluster: ProcessCluster, writer: Writer) -> None:
    """No acknowledged record is lost, none is duplicated or out of order, and all replicas agree."""
    assert writer.failures == []
    cluster.wait_until_in_sync()
    cluster.wait_until_equal()
    assert cluster.values() == sorted(writer.acknowledged)


def ask_late(client: WireClient, acks: int) -> "Future[PartitionProduceResponse]":
    """A request whose reply is read in a thread, because its time is unknown."""
    client.send(produce_request(TOPIC, batch(ZOMBIE), acks), PRODUCE_VERSION)
    answer: Future[PartitionProduceResponse] = Future()

    def receive() -> None:
        try:
            reply = client.receive(ProduceResponse, PRODUCE_VERSION)
            answer.set_result(reply.responses[0].partition_responses[0])
        except (OSError, EOFError) as error:
            answer.set_exception(error)

    threading.Thread(target=receive, daemon=True).start()
    return answer


def test_a_killed_leader_is_replaced_and_follows_when_it_is_back(cluster: ProcessCluster) -> None:
    with Writer(cluster.bootstrap_servers) as writer:
        killed = cluster.leader()
        cluster.brokers[killed].kill()
        writer.wait_for_more()
        print(f"no acknowledgement for {writer.longest_silence:.2f} s, session timeout {SESSION_SECONDS:g} s")
        assert cluster.leader() != killed
        cluster.brokers[killed].start()
        cluster.wait_until_in_sync()
        writer.wait_for_more()
    check(cluster, writer)


def test_a_leader_comes_back_with_an_empty_disk(cluster: ProcessCluster) -> None:
    with Writer(cluster.bootstrap_servers) as writer:
        replaced = cluster.leader()
        broker = cluster.brokers[replaced]
        broker.kill()
        shutil.rmtree(broker.data_dir)
        broker.start()
        cluster.wait_until_in_sync()
        writer.wait_for_more()
    check(cluster, writer)


def test_a_broker_with_an_empty_disk_does_not_lead_when_it_is_back_first(cluster: ProcessCluster) -> None:
    """The store lists it as in sync, like all others, but it has none of their records."""
    with Writer(cluster.bootstrap_servers) as writer:
        first = cluster.leader()
    for broker in cluster.brokers.values():
        broker.kill()
    cluster.wait_until_all_sessions_are_over()
    shutil.rmtree(cluster.brokers[first].data_dir)
    cluster.brokers[first].start()
    alone = cluster.partition(asked=first)
    assert alone is not None
    assert alone.leader == NO_LEADER
    assert first not in alone.isr
    for broker_id in set(cluster.brokers) - {first}:
        cluster.brokers[broker_id].start()
    check(cluster, writer)


def test_a_leader_that_stops_hands_over_first(cluster: ProcessCluster) -> None:
    with Writer(cluster.bootstrap_servers) as writer:
        leader = cluster.leader()
        cluster.brokers[leader].stop()
        writer.wait_for_more()
        assert writer.longest_silence < SESSION_SECONDS, "nobody waits for a session to end"
        cluster.brokers[leader].start()
        cluster.wait_until_in_sync()
    check(cluster, writer)


def test_a_leader_that_was_paused_is_none_when_it_goes_on(cluster: ProcessCluster) -> None:
    """The old leader finds requests in its sockets. It may accept them with acks=1, which needs only the leader's log,
    but it cannot commit them."""
    paused = cluster.leader()
    broker = cluster.brokers[paused]
    with Writer(cluster.bootstrap_servers) as writer, WireClient(broker.bootstrap_servers, timeout=60) as zombie:
        broker.pause()
        answer = ask_late(zombie, acks=-1)
        writer.wait_for_more()
        assert cluster.leader() != paused
        broker.resume()
        refusal = ErrorCode(answer.result(60).error_code)
        assert refusal in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT), refusal
        cluster.wait_for_log(paused, AGAIN)
        cluster.wait_until_in_sync()
        writer.wait_for_more()
    check(cluster, writer)


@pytest.mark.parametrize("broker_id", [pytest.param(1, id="leader"), pytest.param(2, id="follower")])
def test_a_replica_whose_disk_is_full(broker_id: int, tmp_path: Path, zookeeper: ZooKeeperServer) -> None:
    """Leaders do not wait for it as long as for a slow follower, and it rejoins when the disk has room."""
    with small_disk(tmp_path / f"broker-{broker_id}", "8m") as disk, process_cluster(tmp_path, zookeeper) as cluster:
        cluster.create_topic()
        others = sorted(set(cluster.brokers) - {broker_id})
        with Writer(cluster.bootstrap_servers) as writer:
            fill(disk / "ballast")
            eventually(lambda: is_left_to(cluster, others), f"only {others} lead and are in sync")
            writer.wait_for_more()
            assert writer.longest_silence < LAG_SECONDS
            assert "No space left on device" in cluster.brokers[broker_id].log()
            (disk / "ballast").unlink()
            cluster.wait_until_in_sync()
            writer.wait_for_more()
        check(cluster, writer)


def is_left_to(cluster: ProcessCluster, brokers: list[int]) -> bool:
    partition = cluster.partition(asked=brokers[0])
    return partition is not None and partition.leader in brokers and partition.isr == brokers


class ProxyThread:
    """A proxy with its own event loop, for tests that wait for processes."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._done = asyncio.Event()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._run()), daemon=True)
        self.address = ""

    def __enter__(self) -> "ProxyThread":
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join(60)
        self._loop.close()

    async def _run(self) -> None:
        async with TcpProxy(self._target) as self._proxy:
            self.address = self._proxy.address
            self._ready.set()
            await self._done.wait()

    def cut(self) -> None:
        def act() -> None:
            self._proxy.accepting = False
            self._proxy.cut()

        self._do(act)

    def heal(self) -> None:
        self._do(lambda: setattr(self._proxy, "accepting", True))

    def hold_replies(self) -> None:
        """From now on ZooKeeper receives from the broker, but the broker receives nothing."""
        self._do(lambda: self._proxy.replies.clear())
        self._do(lambda: self._proxy.requested.clear())

    def release_replies(self) -> None:
        self._do(lambda: self._proxy.replies.set())

    def has_passed_on(self, text: str) -> bool:
        return text.encode() in self._proxy.requested

    def _do(self, act: Callable[[], None]) -> None:
        done = threading.Event()

        def do() -> None:
            act()
            done.set()

        self._loop.call_soon_threadsafe(do)
        assert done.wait(60)


def test_a_leader_that_zookeeper_gave_up(tmp_path: Path, zookeeper: ZooKeeperServer) -> None:
    """It is cut off only from ZooKeeper, so it does not know that it no longer leads, and clients still reach it.

    As in Apache Kafka, it then accepts acks=1, and the records may be lost. It does not acknowledge acks=all, because
    the others do not fetch from it.
    """
    with (
        ProxyThread(zookeeper.address) as proxy,
        process_cluster(tmp_path, zookeeper, via={1: proxy.address}) as cluster,
    ):
        cluster.create_topic()
        zombie = cluster.brokers[1]
        assert write(zombie, b"1", acks=-1) == ErrorCode.NONE
        proxy.cut()
        eventually(lambda: led_by_another(cluster, 1, asked=2), "another broker leads")
        leader = cluster.partition(asked=2)
        assert leader is not None
        assert write(cluster.brokers[leader.leader], b"2", acks=-1) == ErrorCode.NONE
        assert LOST not in zombie.log()
        assert write(zombie, ZOMBIE, acks=1) == ErrorCode.NONE
        with WireClient(zombie.bootstrap_servers, 60) as client:
            answer = ask_late(client, acks=-1)
            proxy.heal()
            assert answer.result(60).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        cluster.wait_for_log(1, AGAIN)
        assert LOST in zombie.log()
        cluster.wait_until_in_sync()
        cluster.wait_until_equal()
        assert cluster.values() == [1, 2]


def test_a_controller_that_was_replaced_and_does_not_know(tmp_path: Path, zookeeper: ZooKeeperServer) -> None:
    """It has a session and is registered, and still acts as the controller. The others have a new controller with a
    higher epoch, so ZooKeeper rejects its writes. It then reads the state again and decides with that."""
    with contextlib.ExitStack() as stack:
        proxies = {broker_id: stack.enter_context(ProxyThread(zookeeper.address)) for broker_id in (1, 2, 3)}
        via = {broker_id: proxy.address for broker_id, proxy in proxies.items()}
        cluster = stack.enter_context(process_cluster(tmp_path, zookeeper, via=via, session_seconds=20.0))
        tree = stack.enter_context(cluster.tree())
        cluster.create_topic()
        cluster.brokers[1].restart()
        cluster.wait_until_in_sync()
        assert cluster.leader() == 2

        zombie = decode_controller(tree.get(CONTROLLER)[0])
        epoch = decode_controller_epoch(tree.get(CONTROLLER_EPOCH)[0])
        proxies[zombie].hold_replies()
        tree.delete(CONTROLLER)
        eventually(lambda: tree.exists(CONTROLLER), "there is another controller")
        assert decode_controller(tree.get(CONTROLLER)[0]) != zombie
        with WireClient(cluster.brokers[zombie].bootstrap_servers, 60) as client:
            client.send(ElectLeadersRequest(topic_partitions=[TopicPartitions(topic=TOPIC, partitions=[0])]), 2)
            state_path = partition_state_path(TOPIC, 0)
            eventually(lambda: proxies[zombie].has_passed_on(state_path), "the former controller has decided")
            assert cluster.partition(asked=zombie) == (2, [1, 2, 3])
            proxies[zombie].release_replies()
            assert client.receive(ElectLeadersResponse, 2).error_code == ErrorCode.NONE
        state = decode_partition_state(tree.get(state_path)[0])
        assert (state.leader, state.controller_epoch) == (1, epoch + 1)
        eventually(lambda: cluster.leader() == 1, "the preferred replica leads")


def write(broker: BrokerProcess, value: bytes, acks: int) -> ErrorCode:
    with WireClient(broker.bootstrap_servers) as client:
        return ErrorCode(produce(client, TOPIC, batch(value), acks).error_code)


def led_by_another(cluster: ProcessCluster, broker_id: int, asked: int) -> bool:
    partition = cluster.partition(asked=asked)
    return partition is not None and partition.leader not in (-1, broker_id)


def is_said(broker: BrokerProcess, text: str, times: int) -> bool:
    return broker.log().count(text) >= times


def without_zookeeper(cluster: ProcessCluster, seconds: float) -> None:
    with Writer(cluster.bootstrap_servers) as writer:
        before = cluster.partition()
        cluster.zookeeper.stop()
        gone = time.monotonic()
        while time.monotonic() - gone < seconds:
            writer.wait_for_more()
        assert cluster.partition() == before
        assert writer.longest_silence < min(seconds, 20.0), "brokers serve without ZooKeeper"
        times = {broker_id: broker.log().count(CONNECTED) for broker_id, broker in cluster.brokers.items()}
        cluster.zookeeper.start()
        for broker_id, broker in cluster.brokers.items():
            eventually(partial(is_said, broker, CONNECTED, times[broker_id] + 1), "ZooKeeper is back")
        cluster.create_topic("afterwards")
        writer.wait_for_more()
    check(cluster, writer)
    assert not any(LOST in broker.log() for broker in cluster.brokers.values())


def test_zookeeper_is_away_for_longer_than_a_session(cluster: ProcessCluster) -> None:
    without_zookeeper(cluster, 2 * SESSION_SECONDS)


@pytest.mark.slow
def test_zookeeper_is_away_for_a_minute(cluster: ProcessCluster) -> None:
    without_zookeeper(cluster, 60.0)
