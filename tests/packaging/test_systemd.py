"""The systemd unit: systemd accepts it, and the command that it runs starts a broker."""

import configparser
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.server.broker_process import BrokerProcess

UNIT = Path(__file__).parents[2] / "packaging" / "ottla.service"
PROGRAM = "/opt/ottla/bin/ottla"


class Unit(configparser.ConfigParser):
    def optionxform(self, optionstr: str) -> str:
        """Names of a unit have capital letters."""
        return optionstr


@pytest.fixture
def service() -> configparser.SectionProxy:
    unit = Unit(interpolation=None)
    unit.read(UNIT)
    assert unit.sections() == ["Unit", "Service", "Install"]
    return unit["Service"]


def test_its_command_starts_a_broker(service: configparser.SectionProxy, tmp_path: Path) -> None:
    program, subcommand, properties, *options = shlex.split(service["ExecStart"])
    assert (program, subcommand, properties) == (PROGRAM, "serve", "/etc/ottla/server.properties")
    assert options == ["--data-dir", f"/var/lib/{service['StateDirectory']}"]
    (tmp_path / "server.properties").write_text("listeners=PLAINTEXT://127.0.0.1:0\n")
    command = [sys.executable, "-m", "ottla", "serve", str(tmp_path / "server.properties")]
    broker = BrokerProcess([*command, options[0], str(tmp_path / "data")], {"KAFKA_NODE_ID": "7"})
    try:
        assert broker.terminate() == 0
    finally:
        broker.kill()
    assert "node.id=7" in (tmp_path / "data" / "meta.properties").read_text()


def test_it_runs_without_privileges_and_is_given_time_to_stop(service: configparser.SectionProxy) -> None:
    assert service["User"] == "ottla"
    assert (service["NoNewPrivileges"], service["ProtectSystem"]) == ("yes", "strict")
    assert int(service["TimeoutStopSec"]) >= 60
    assert int(service["LimitNOFILE"]) >= 10_000


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_accepts_it(tmp_path: Path) -> None:
    """systemd-analyze wants the program of the unit to exist, so the copy names this Python."""
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace(PROGRAM, sys.executable))
    done = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, timeout=60)
    complaints = [line for line in done.stderr.splitlines() if UNIT.name in line]
    assert (done.returncode, complaints) == (0, [])
