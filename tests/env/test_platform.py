"""Which forms a process chooses. Each test asks a new process, because the choice is made at import."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

REPORT = """
import json, os, sys
calls = []
preadv = os.preadv
os.preadv = lambda *arguments: calls.append(arguments[3:]) or preadv(*arguments)
from ottla.env import network, platform
from ottla.env.disk import OsDisk

file = OsDisk().open(sys.argv[1])
cached = file.read_cached(5, 0)
names = ("boot_id", "end_with_parent", "fdatasync", "fsync", "resident_memory", "sendfile", "thread_usage")
print(json.dumps({
    "portable": platform.PORTABLE,
    "modules": {name: getattr(platform, name).__module__ for name in names},
    "is_of_os": [name for name in names if getattr(platform, name) is getattr(os, name, None)],
    "MSG_MORE": platform.MSG_MORE,
    "network": [network.sendfile is platform.sendfile, network.MSG_MORE],
    "cached": cached.decode(),
    "preadv": calls,
}))
"""


def report(file: Path, portable: str | None) -> Any:
    environment = {name: value for name, value in os.environ.items() if name != "OTTLA_PORTABLE"}
    if portable is not None:
        environment["OTTLA_PORTABLE"] = portable
    file.write_bytes(b"hello world")
    command = [sys.executable, "-c", REPORT, str(file)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("value", [None, "", "0"])
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has these forms")
def test_linux_uses_its_own_forms(tmp_path: Path, value: str | None) -> None:
    chosen = report(tmp_path / "file", value)
    assert not chosen["portable"]
    assert chosen["is_of_os"] == ["fdatasync", "fsync", "sendfile"]
    others = {chosen["modules"][name] for name in ("boot_id", "end_with_parent", "resident_memory", "thread_usage")}
    assert others == {"ottla.env.linux"}
    assert chosen["MSG_MORE"] > 0
    assert chosen["network"] == [True, chosen["MSG_MORE"]]
    assert chosen["cached"] == "hello"
    assert chosen["preadv"] == [[os.RWF_NOWAIT]]


def test_the_portable_forms_can_be_forced(tmp_path: Path) -> None:
    chosen = report(tmp_path / "file", "1")
    assert chosen["portable"]
    assert "sendfile" not in chosen["is_of_os"]
    assert "fdatasync" not in chosen["is_of_os"]
    others = ("boot_id", "end_with_parent", "resident_memory", "sendfile", "thread_usage")
    assert {chosen["modules"][name] for name in others} == {"ottla.env.portable"}
    assert chosen["network"] == [True, 0]
    assert chosen["cached"] == "hello"
    assert chosen["preadv"] == []
