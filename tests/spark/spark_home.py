"""Spark as the tests start it."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

QUICK_JAVA = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""For a Java that lives for some seconds only and is not worth optimising."""


def spark_home() -> Path:
    """The pyspark that is installed, which is all of Spark."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def spark_environment() -> dict[str, str]:
    """For a program that uses Spark in a process of its own."""
    return {**os.environ, **QUICK_JAVA, "PYSPARK_PYTHON": sys.executable}
