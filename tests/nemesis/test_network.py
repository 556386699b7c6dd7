"""A cut link transfers nothing, and held data arrives late."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.nemesis.network import Network, Way

PATIENCE = 60.0
SILENCE = 0.2


@pytest.fixture
def network() -> Iterator[Network]:
    network = Network()
    yield network
    network.close()


@pytest.fixture
def echo() -> Iterator[int]:
    """A server that echoes its input."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

        def answer(connection: socket.socket) -> None:
            with connection:
                while data := connection.recv(1000):
                    connection.sendall(data)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join(PATIENCE)


def request(client_id: bytes) -> bytes:
    return struct.pack(">ihhih", 10 + len(client_id), 18, 3, 1, len(client_id)) + client_id


def hears(connection: socket.socket, size: int, within: float) -> bytes | None:
    connection.settimeout(within)
    try:
        return connection.recv(size, socket.MSG_WAITALL)
    except TimeoutError:
        return None


def test_a_way_is_cut_and_mended(network: Network, echo: int) -> None:
    port = network.listen("broker-1", echo, "clients")
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"hello")
        assert hears(connection, 5, PATIENCE) == b"hello"
        network.cut([Way("clients", "broker-1")])
        connection.sendall(b"are you there?")
        assert hears(connection, 1, SILENCE) is None
        network.mend_all()
        assert hears(connection, 14, PATIENCE) == b"are you there?"


def test_brokers_are_told_apart_by_how_they_introduce_themselves(network: Network, echo: int) -> None:
    port = network.listen("broker-1", echo)
    network.cut([Way("broker-2", "broker-1")])
    first, second = request(b"broker-2-fetcher"), request(b"broker-3-fetcher")
    with (
        socket.create_connection(("127.0.0.1", port)) as cut_off,
        socket.create_connection(("127.0.0.1", port)) as heard,
    ):
        cut_off.sendall(first)
        heard.sendall(second)
        assert hears(heard, len(second), PATIENCE) == second
        assert hears(cut_off, 1, SILENCE) is None
        network.mend([Way("broker-2", "broker-1")])
        assert hears(cut_off, len(first), PATIENCE) == first


def test_an_end_is_passed_on(network: Network, echo: int) -> None:
    port = network.listen("broker-1", echo, "clients")
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"x")
        assert hears(connection, 1, PATIENCE) == b"x"
        connection.shutdown(socket.SHUT_WR)
        with suppress(ConnectionResetError):
            assert hears(connection, 1, PATIENCE) == b""
