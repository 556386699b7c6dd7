"""A real ZooKeeper for the tests that need one: one server for all of them, each test with a chroot of its own."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.cli.command_error import CommandError
from ottla.cli.zookeeper_server import ZooKeeperServer, require_jars, require_java

TICK_MS = 100


def new_server(data_dir: Path, *, port: int = 0) -> ZooKeeperServer:
    """Skips the test where there is no Java or no ZooKeeper."""
    built = Path(__file__).parents[2] / "build" / "zookeeper-jars"
    environment = {"ZOOKEEPER_JARS": str(built) if built.is_dir() else "", **os.environ}
    try:
        return ZooKeeperServer(require_java(), require_jars(None, environment), data_dir, port, tick_ms=TICK_MS)
    except CommandError as error:
        pytest.skip(f"{error} (or `make zookeeper-jars`)")


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
