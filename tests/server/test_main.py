"""Where `ottla serve` takes its settings from, and what it prints when it is ready."""

import subprocess
from pathlib import Path

import pytest

from ottla.config.listeners import broker_listeners
from ottla.env.network import Address
from ottla.server.main import dialable, load_config, say_ready
from tests.server.broker_process import broker_process


def test_later_sources_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=2\nlog.retention.ms=2\nlog.dirs=/file\nmessage.max.bytes=2000\n")
    monkeypatch.setenv("KAFKA_LOG_RETENTION_MS", "3")
    monkeypatch.setenv("KAFKA_LOG_DIRS", "/environment")
    monkeypatch.setenv("KAFKA_MESSAGE_MAX_BYTES", "3000")
    config = load_config(file, Path("/option"), "127.0.0.1:1234", {"message.max.bytes": "4000"})
    assert config.integer("num.partitions") == 2
    assert config.integer("log.retention.ms") == 3
    assert config.list("log.dirs") == ("/option",)
    assert config.integer("message.max.bytes") == 4000
    assert [str(listener) for listener in broker_listeners(config)] == ["PLAINTEXT://127.0.0.1:1234"]


def test_an_environment_that_only_advertises_also_says_where_to_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_ADVERTISED_LISTENERS", "PLAINTEXT://broker.example:9095")
    config = load_config(None, None, None, {})
    assert [str(listener) for listener in broker_listeners(config)] == ["PLAINTEXT://0.0.0.0:9095"]


@pytest.mark.parametrize(
    ("bound", "printed"),
    [
        (Address("0.0.0.0", 9092), "127.0.0.1:9092"),
        (Address("::", 9092), "[::1]:9092"),
        (Address("127.0.0.1", 9092), "127.0.0.1:9092"),
        (Address("192.0.2.7", 9092), "192.0.2.7:9092"),
    ],
)
def test_a_printed_address_can_be_dialled(bound: Address, printed: str) -> None:
    assert str(dialable(bound)) == printed


def test_the_command_can_be_pasted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def hints() -> list[str]:
        say_ready(["PLAINTEXT://127.0.0.1:9092"])
        return capsys.readouterr().out.splitlines()

    monkeypatch.setattr("shutil.which", lambda _: "/somewhere/bin/ottla")
    monkeypatch.setattr("sys.argv", ["/somewhere/bin/ottla", "serve"])
    monkeypatch.delenv("UV", raising=False)
    assert hints()[1:] == [
        "  ottla topics create clicks --partitions 3 --if-not-exists",
        "  echo hello | ottla produce clicks",
        "  ottla consume clicks --from-beginning",
        "Ottla is ready: PLAINTEXT://127.0.0.1:9092",
    ]
    monkeypatch.setenv("UV", "/usr/bin/uv")
    assert hints()[2] == "  echo hello | /somewhere/bin/ottla produce clicks", (
        "uvx puts it on the path of one process only"
    )


def test_what_to_try_next_works_at_the_second_start_too(tmp_path: Path) -> None:
    for start in (1, 2):
        with broker_process(tmp_path, {}) as broker:
            [create, produce, consume] = [line for line in broker.output if "clicks" in line]
            for hint in (create, produce, f"{consume} --max-messages {start}"):
                done = subprocess.run(["/bin/sh", "-c", hint], capture_output=True, text=True, timeout=60)
                assert done.returncode == 0, done.stderr
            assert done.stdout == "hello\n" * start
            assert broker.terminate() == 0
