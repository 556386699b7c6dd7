from pathlib import Path

import pytest

from ottla.errors import ErrorCode
from ottla.replication.final_sync import sync_logs
from tests.replication.cluster import Host
from tests.replication.world import batch, expect, on_loop


@on_loop
async def test_a_log_that_cannot_be_synced_is_served_no_more(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    host = Host(tmp_path, held=False)
    host.create_topic("clicks", 30)
    for partition in host.replicas:
        partition.append(batch(b"x"))
    broken, good = host.replicas.leader_of("clicks", 3), host.replicas.leader_of("clicks", 29)
    host.disk.break_("sync", "/clicks-3/")
    await sync_logs(host.replicas, host.background)
    assert "cannot sync clicks-3 before the broker closes it: [Errno 5]" in caplog.text
    with expect(ErrorCode.KAFKA_STORAGE_ERROR):
        broken.append(batch(b"y"))
    assert good.append(batch(b"y")).base_offset == 1
    assert (good.log.recovery_point, broken.log.fsync_failed) == (1, True)
