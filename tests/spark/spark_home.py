"""Spark as the tests start it."""

import atexit
import os
import shutil
import sys
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

QUICK_JAVA = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""For a Java that lives for some seconds only and is not worth optimising."""


@cache
def spark_home() -> Path:
    """The pyspark that is installed, without its zipped Python part.

    Python processes of Spark prefer that one and compile it at every start, which takes three times as long, while
    Spark gives some of them ten seconds and no more. Without it they import what is installed.
    """
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    home = Path(tempfile.mkdtemp(prefix="ottla-spark-home-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    for name in ("bin", "jars"):
        (home / name).symlink_to(Path(spec.origin).parent / name)
    return home


def spark_environment() -> dict[str, str]:
    """For a program that uses Spark in a process of its own."""
    return {**os.environ, **QUICK_JAVA, "SPARK_HOME": str(spark_home()), "PYSPARK_PYTHON": sys.executable}
