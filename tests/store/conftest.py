"""A real ZooKeeper for the tests that need one: one server for all of them, each test with a chroot of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.cli.zookeeper_server import ZooKeeperServer, require_jars, require_java

TICK_MS = 100


def new_server(data_dir: Path, *, port: int = 0) -> ZooKeeperServer:
    return ZooKeeperServer(require_java(), require_jars(None), data_dir, port, tick_ms=TICK_MS)


@pytest.fixture(scope="session")
def zookeeper_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = new_server(tmp_path_factory.mktemp("zookeeper"))
    server.start()
    yield server.address
    server.stop()


@pytest.fixture
def zookeeper_server(tmp_path: Path) -> Iterator[ZooKeeperServer]:
    """A server for one test, which may do to it what it likes."""
    server = new_server(tmp_path / "zookeeper")
    server.start()
    yield server
    server.stop()
