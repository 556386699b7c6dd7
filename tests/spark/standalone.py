"""A Spark standalone cluster from the pyspark wheel, on loopback: a master and workers, as processes of their own."""

import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Self

from tests.compat.deadlines import eventually
from tests.spark.spark_home import spark_environment, spark_home

START_TIMEOUT = 300.0
HOST = "127.0.0.1"


class Daemon:
    """One `spark-class` in a process group of its own: executors of a worker belong to it and die with it."""

    def __init__(self, log: Path, *arguments: str) -> None:
        self._log = log
        environment = {**spark_environment(), "SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_IP": HOST}
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [spark_home() / "bin" / "spark-class", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=environment,
            )

    def said(self, pattern: str) -> str:
        """What a pattern's group is in the log, as soon as it is there."""

        def look() -> re.Match[str] | None:
            text = self._log.read_text(errors="replace")
            assert self._process.poll() is None, text
            return re.search(pattern, text)

        found = eventually(look, START_TIMEOUT, 0.1)
        assert found is not None
        return found.group(1)

    def kill(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(30)


class StandaloneCluster:
    def __init__(self, directory: Path, workers: int = 2) -> None:
        self._directory = directory
        self._count = workers
        self._daemons: list[Daemon] = []
        self.workers: list[Daemon] = []
        self.master = ""

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for daemon in reversed(self._daemons):
            daemon.kill()

    def _start(self) -> None:
        listen = ("--host", HOST, "--port", "0", "--webui-port", "0")
        master = Daemon(self._directory / "master.log", "org.apache.spark.deploy.master.Master", *listen)
        self._daemons.append(master)
        self.master = master.said(r"Starting Spark master at (spark://\S+)")
        limits = ("--cores", "1", "--memory", "512m")
        for index in range(self._count):
            work = ("--work-dir", str(self._directory / f"worker-{index}"), self.master)
            name = "org.apache.spark.deploy.worker.Worker"
            worker = Daemon(self._directory / f"worker-{index}.log", name, *listen, *limits, *work)
            self._daemons.append(worker)
            self.workers.append(worker)
        for worker in self.workers:
            worker.said(r"(Successfully registered) with master")
