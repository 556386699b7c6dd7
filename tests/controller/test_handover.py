"""A broker that stops leaves clients no way into the void."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.server.listeners import Listeners
from tests.handlers.brokers import brokers
from tests.server.worlds import asynchronous, until


@asynchronous
async def test_nobody_names_a_controller_that_has_closed_its_listeners(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """librdkafka asks once who the controller is. If that broker is gone, its requests time out."""
    looks: list[Callable[[], object]] = []
    close = Listeners.close

    def look_and_close(listeners: Listeners) -> None:
        for look in looks:
            look()
        close(listeners)

    monkeypatch.setattr(Listeners, "close", look_and_close)
    async with brokers(tmp_path, 3) as cluster:
        controller = cluster.image.controller_id
        others = [server for broker_id, server in cluster.running.items() if broker_id != controller]
        named: list[int] = []
        looks.append(lambda: named.extend(server.broker.metadata.controller_for_clients for server in others))
        await cluster.stop(controller)
        looks.clear()
        assert len(named) == len(others)
        assert controller not in named
        await until(lambda: cluster.image.controller_id in cluster.running)


@asynchronous
async def test_the_last_broker_stays_the_controller_until_it_is_gone(tmp_path: Path) -> None:
    async with brokers(tmp_path, 1) as cluster:
        await cluster.stop(1)
        await cluster.start(1)
        assert cluster.image.controller_epoch == 2
