"""Where `ottla serve` takes its settings from."""

from pathlib import Path

import pytest

from ottla.config.listeners import broker_listeners
from ottla.server.main import load_config


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
