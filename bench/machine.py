"""Describes the machine of a run, without names of hosts or directories."""

import os
import platform
import re
import subprocess
from dataclasses import dataclass
from importlib.metadata import version as package_version
from pathlib import Path

from bench import kafka, spark


@dataclass(frozen=True, slots=True)
class Machine:
    cpu: str
    cores: int
    memory_gigabytes: float
    kernel: str
    python: str
    java: str
    kafka: str
    ottla: str
    librdkafka: str
    confluent_kafka: str
    spark: str = ""
    pyarrow: str = ""
    connector: str = ""

    def lines(self) -> list[str]:
        return [
            self._hardware(),
            f"Apache Kafka {self.kafka} on Java {self.java}",
            f"Ottla {self.ottla} on CPython {self.python}",
            f"librdkafka {self.librdkafka}, through confluent-kafka {self.confluent_kafka}",
        ]

    def spark_lines(self) -> list[str]:
        return [
            self._hardware(),
            f"PySpark {self.spark} on Java {self.java}",
            f"Ottla {self.ottla} on CPython {self.python}, with pyarrow {self.pyarrow}",
            f"Spark's Kafka connector: {self.connector}",
        ]

    def _hardware(self) -> str:
        return f"{self.cores} cores of {self.cpu}, {self.memory_gigabytes:.0f} GB of memory, {self.kernel}"


def this_machine() -> Machine:
    return Machine(
        cpu=_first("/proc/cpuinfo", r"^model name\s*:\s*(.+)$") or platform.machine(),
        cores=os.cpu_count() or 1,
        memory_gigabytes=int(_first("/proc/meminfo", r"^MemTotal:\s*(\d+) kB$") or 0) / 1e6,
        kernel=f"{platform.system()} {re.match(r'[0-9.]*', platform.release())[0]}",  # type: ignore[index]
        python=platform.python_version(),
        java=_java_version(),
        kafka=kafka.version(),
        ottla=package_version("ottla"),
        librdkafka=_librdkafka_version(),
        confluent_kafka=package_version("confluent-kafka"),
        spark=package_version("pyspark"),
        pyarrow=package_version("pyarrow"),
        connector=", ".join(jar.stem for jar in sorted(spark.connector_jars().glob("*kafka*.jar"))),
    )


def _first(file: str, pattern: str) -> str | None:
    found = re.search(pattern, Path(file).read_text(), re.MULTILINE)
    return found[1].strip() if found else None


def _java_version() -> str:
    done = subprocess.run(["java", "-version"], capture_output=True, text=True, timeout=30)
    found = re.search(r'version "([^"]+)"', done.stderr)
    return found[1] if found else "unknown"


def _librdkafka_version() -> str:
    from confluent_kafka import libversion

    return str(libversion()[0])
