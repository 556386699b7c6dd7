"""How Spark is set up."""

import os

import pytest

from ottla.pipeline.session import SessionSettings, local_cores, session_conf


@pytest.mark.parametrize(
    ("master", "cores"), [("local", 1), ("local[3]", 3), ("local[*]", os.cpu_count()), ("local[2,4]", 2)]
)
def test_as_many_shuffle_partitions_as_cores(master: str, cores: int) -> None:
    assert local_cores(master) == cores
    assert session_conf(SessionSettings("x", master))["spark.sql.shuffle.partitions"] == str(cores)


def test_a_cluster_is_left_as_its_owner_set_it_up() -> None:
    conf = session_conf(SessionSettings("x", "spark://host:7077"))
    assert "spark.sql.shuffle.partitions" not in conf
    assert "spark.driver.host" not in conf


def test_what_the_person_says_wins() -> None:
    conf = session_conf(SessionSettings("x", conf={"spark.log.level": "DEBUG", "spark.sql.shuffle.partitions": "7"}))
    assert (conf["spark.log.level"], conf["spark.sql.shuffle.partitions"]) == ("DEBUG", "7")
