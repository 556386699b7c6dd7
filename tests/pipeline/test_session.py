"""How Spark is set up."""

import os
import sys
from pathlib import Path

import pytest

from ottla.pipeline.session import SessionSettings, first_complaint, is_local, local_cores, require_spark, session_conf

LOG = Path("spark.log")


@pytest.mark.parametrize(
    ("master", "cores"), [("local", 1), ("local[3]", 3), ("local[*]", os.cpu_count()), ("local[2,4]", 2)]
)
def test_as_many_shuffle_partitions_as_cores(master: str, cores: int) -> None:
    assert local_cores(master) == cores
    assert session_conf(SessionSettings("x", LOG, master))["spark.sql.shuffle.partitions"] == str(cores)


def test_a_cluster_is_left_as_its_owner_set_it_up() -> None:
    conf = session_conf(SessionSettings("x", LOG, "spark://host:7077"))
    assert "spark.sql.shuffle.partitions" not in conf
    assert "spark.driver.host" not in conf


def test_what_the_person_says_wins() -> None:
    conf = session_conf(
        SessionSettings("x", LOG, conf={"spark.log.level": "DEBUG", "spark.sql.shuffle.partitions": "7"})
    )
    assert (conf["spark.log.level"], conf["spark.sql.shuffle.partitions"]) == ("DEBUG", "7")


@pytest.mark.parametrize(
    ("master", "local"),
    [("local", True), ("local[*]", True), ("local-cluster[2,1,512]", False), ("spark://a:1", False)],
)
def test_which_masters_are_this_machine(master: str, local: bool) -> None:
    assert is_local(master) == local


def test_the_environment_names_a_python_that_has_ottla(tmp_path: Path) -> None:
    environment = {name: os.environ[name] for name in ("JAVA_HOME", "PATH") if name in os.environ}
    require_spark(environment, tmp_path)
    assert environment["PYSPARK_PYTHON"] == environment["PYSPARK_DRIVER_PYTHON"] == sys.executable
    chosen = {"PYSPARK_PYTHON": "/my/python"}
    environment |= chosen
    require_spark(environment, tmp_path)
    assert environment["PYSPARK_PYTHON"] == "/my/python", "what the person says wins"


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("WARNING: x\nError occurred during initialization of VM\nToo small maximum heap\n", "Too small maximum heap"),
        ('Exception in thread "main" org.spark.SparkException: Master must be.\n\tat x\n', "Master must be"),
        ("Error: Unable to access jarfile\n", "Error: Unable to access jarfile"),
        ("WARNING: nothing\n", None),
    ],
)
def test_why_java_ended_at_once(tmp_path: Path, lines: str, reason: str | None) -> None:
    (tmp_path / "spark.log").write_text(lines)
    assert first_complaint(tmp_path / "spark.log") == reason
