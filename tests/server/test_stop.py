"""A broker that stops serves clients until its logs are synced."""

import asyncio
from pathlib import Path

from ottla.client.connection import connect
from ottla.config.broker import BrokerConfig
from ottla.records.builder import NewRecord, build_batch
from ottla.server.broker import World
from ottla.wire.api.metadata import MetadataRequest, MetadataResponse
from tests.handlers.brokers import SETTINGS, TIMESTAMP, ObservedServer
from tests.replication.world import ManualBackground
from tests.server.worlds import asynchronous, until


class ManualWorkers(ManualBackground):
    def close(self) -> None:
        assert not self.waiting


@asynchronous
async def test_clients_are_served_while_the_logs_are_synced(tmp_path: Path) -> None:
    closing = ManualWorkers(held=True)
    server = ObservedServer(BrokerConfig({**SETTINGS, "log.dirs": str(tmp_path)}), World(closing=closing))
    await server.start()
    await server.broker.metadata.create_topic("t", partitions=40)
    await until(lambda: len(list(server.broker.replicas)) == 40)
    for partition in server.broker.replicas:
        partition.append(memoryview(build_batch([NewRecord(None, b"x", timestamp=TIMESTAMP)])))
    stopping = asyncio.ensure_future(server.stop())
    await until(lambda: closing.waiting > 0)
    connection = await connect(server.addresses["PLAINTEXT"], client_id="test", within=60.0)
    answer = await connection.call(MetadataRequest(topics=None), MetadataResponse, within=60.0)
    assert [len(topic.partitions) for topic in answer.topics] == [40]
    partition = server.broker.replicas.leader_of("t", 0)
    partition.append(memoryview(build_batch([NewRecord(None, b"late", timestamp=TIMESTAMP)])))
    while not stopping.done():
        await closing.finish_all()
        await asyncio.sleep(0)
    await stopping
    connection.close()
    again = ObservedServer(BrokerConfig({**SETTINGS, "log.dirs": str(tmp_path)}))
    await again.start()
    ends = {it.topic_partition.partition: it.log.end_offset for it in again.broker.replicas}
    assert ends == {0: 2, **dict.fromkeys(range(1, 40), 1)}
    await again.stop()
