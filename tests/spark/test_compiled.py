"""Which pyspark Spark's Python processes import."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.spark.compiled import prefer
from tests.spark.spark_home import spark_home


def imported_from(*path: str) -> str:
    """Where a process with this PYTHONPATH, which is how Spark starts them, has pyspark from."""
    program = "import pyspark; print(pyspark.__file__)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.strip()


def test_processes_of_spark_import_what_is_installed() -> None:
    archives = spark_home() / "python" / "lib"
    path = [str(archives / "pyspark.zip"), *map(str, archives.glob("py4j-*.zip"))]
    assert len(path) == 2, "what Spark is expected to put there"
    assert imported_from(*path) == str(spark_home() / "__init__.py")


def test_another_spark_is_left_alone(tmp_path: Path) -> None:
    archives = tmp_path / "python" / "lib"
    archives.mkdir(parents=True)
    (archives / "pyspark.zip").symlink_to(spark_home() / "python" / "lib" / "pyspark.zip")
    assert imported_from(str(archives / "pyspark.zip")).startswith(str(archives))


@pytest.mark.parametrize("py4j", [True, False])
def test_archives_go_whose_content_is_installed(tmp_path: Path, py4j: bool) -> None:
    home = tmp_path / "site-packages" / "pyspark"
    archives = [home / "python" / "lib" / name for name in ("pyspark.zip", "py4j-1-src.zip", "other.zip")]
    archives[0].parent.mkdir(parents=True)
    for archive in archives:
        archive.touch()
    if py4j:
        (home.parent / "py4j").mkdir()
    path = [*map(str, archives), str(home.parent)]
    prefer(path)
    assert path == [*(str(archives[index]) for index in ([2] if py4j else [1, 2])), str(home.parent)]
