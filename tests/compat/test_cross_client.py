"""What one client writes, every other client reads: same keys, values, headers and timestamps, with every codec."""

import time

import pytest

from tests.compat.clients import ALL_CODECS, CLIENTS, Client
from tests.compat.confluent_client import Record

HEADERS: list[tuple[str, bytes | None]] = [("trace", b"abc"), ("trace", b"def"), ("empty", b"")]
RECORDS = [Record(f"value {n} ".encode() * 5, f"key-{n}".encode(), HEADERS, 1_700_000_000_000 + n) for n in range(25)]


@pytest.mark.parametrize("codec", sorted(ALL_CODECS))
@pytest.mark.parametrize("writer", CLIENTS, ids=lambda client: client.name)
def test_everyone_reads_what_one_wrote(bootstrap: str, topic: str, writer: Client, codec: str) -> None:
    if codec not in writer.codecs:
        pytest.skip(f"{writer.name} has no {codec} library here")
    before = int(time.time() * 1000)
    writer.produce(bootstrap, topic, RECORDS, codec)
    for client in CLIENTS:
        if codec not in client.codecs:
            continue
        read = client.consume(bootstrap, topic, len(RECORDS))
        assert [(r.key, r.value, r.headers) for r in read] == [(r.key, r.value, r.headers) for r in RECORDS], (
            client.name
        )
        if writer.keeps_timestamps:
            assert [r.timestamp for r in read] == [r.timestamp for r in RECORDS], client.name
        else:
            assert all(before <= (r.timestamp or 0) <= int(time.time() * 1000) for r in read), client.name


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_everyone_reads_a_log_with_all_codecs_mixed(bootstrap: str, topic: str, client: Client) -> None:
    for codec in sorted(client.codecs):
        CLIENTS[0].produce(bootstrap, topic, RECORDS, codec)
    read = client.consume(bootstrap, topic, len(RECORDS) * len(client.codecs))
    assert [r.value for r in read] == [r.value for r in RECORDS] * len(client.codecs)
