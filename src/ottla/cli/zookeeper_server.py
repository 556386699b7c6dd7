"""A development ZooKeeper as a child process: one server, on loopback, with its data in a directory."""

import importlib.util
import os
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from ottla.cli.child import child_command
from ottla.cli.command_error import CommandError
from ottla.env.java import HOW_TO_GET_JAVA, OLDEST_JAVA, NoJava, find_java

HOST = "127.0.0.1"
START_TIMEOUT = 120.0
STOP_TIMEOUT = 10.0
POLL_INTERVAL = 0.02

CONFIG = """\
tickTime={tick_ms}
minSessionTimeout={shortest_session_ms}
maxSessionTimeout=60000
dataDir={data_dir}
clientPort={port}
clientPortAddress={host}
admin.enableServer=false
preAllocSize=4096
autopurge.purgeInterval=1
"""
"""`preAllocSize` is in kilobytes; ZooKeeper would begin every transaction log with 64 MB of zeros."""


class ZooKeeperServer:
    def __init__(self, java: str, jars: Path, data_dir: Path, port: int, *, tick_ms: int = 500) -> None:
        self._java = java
        self._jars = jars
        self._data_dir = data_dir.resolve()
        self._tick_ms = tick_ms
        self.port = port or _free_port()
        self.log_path = self._data_dir / "zookeeper.log"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def start(self) -> str:
        """Returns the version of the server when it serves."""
        self._check_port()
        config = self._write_config()
        options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        main = ["-cp", f"{self._jars}/*", "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(config)]
        with self.log_path.open("ab") as log:
            # A session of its own, so that Ctrl-C reaches this process only, which then stops the server.
            self.process = subprocess.Popen(
                child_command(["exec", self._java, *options, *main]),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            return self._wait_until_it_serves(self.process)
        except BaseException:
            self.stop()
            raise

    def wait(self) -> int:
        """Until the server ends."""
        return 0 if self.process is None else self.process.wait()

    def exit_code(self) -> int | None:
        """None while the server runs."""
        return None if self.process is None else self.process.poll()

    def stop(self) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _check_port(self) -> None:
        """ZooKeeper would say it too, but only in its log."""
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, self.port))
            except OSError as error:
                raise CommandError(
                    f"{self.address} cannot be listened on: {error.strerror}; choose another port with --port."
                ) from error

    def _write_config(self) -> Path:
        self._data_dir.mkdir(parents=True, exist_ok=True)
        config = self._data_dir / "zoo.cfg"
        config.write_text(
            CONFIG.format(
                tick_ms=self._tick_ms,
                shortest_session_ms=2 * self._tick_ms,
                data_dir=self._data_dir,
                port=self.port,
                host=HOST,
            )
        )
        return config

    def _wait_until_it_serves(self, process: subprocess.Popen[bytes]) -> str:
        deadline = time.monotonic() + START_TIMEOUT
        while (version := _serving_version(self.port)) is None:
            if process.poll() is not None:
                raise CommandError(f"ZooKeeper ended with exit code {process.returncode}; see {self.log_path}.")
            if time.monotonic() >= deadline:
                raise CommandError(f"ZooKeeper was not ready within {START_TIMEOUT:g} seconds; see {self.log_path}.")
            time.sleep(POLL_INTERVAL)
        return version


def require_java(environment: Mapping[str, str] = os.environ) -> str:
    try:
        return str(find_java(environment).command)
    except NoJava as error:
        raise CommandError(f"ZooKeeper needs Java {OLDEST_JAVA} or newer and {error}: {HOW_TO_GET_JAVA}.") from None


def require_jars(directory: Path | None, environment: Mapping[str, str] = os.environ) -> Path:
    """ZooKeeper's own jars: from the directory, else from ZOOKEEPER_JARS, else from the ones PySpark carries."""
    named = directory or Path(environment.get("ZOOKEEPER_JARS") or "")
    if named != Path():
        if not any(named.glob("zookeeper-[0-9]*.jar")):
            raise CommandError(f"There is no zookeeper-*.jar in {named}.")
        return named.resolve()
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is not None and pyspark.origin is not None:
        carried = Path(pyspark.origin).parent / "jars"
        if any(carried.glob("zookeeper-[0-9]*.jar")):
            return carried
    raise CommandError(
        "ZooKeeper's jars are not here; run `pip install pyspark`, which carries them, or name a directory with --jars."
    )


def missing_parts(jars: Path | None, environment: Mapping[str, str] = os.environ) -> list[str]:
    """What a cluster on ZooKeeper lacks here, each with the way to get it."""
    missing = []
    if importlib.util.find_spec("kazoo") is None:
        missing.append('the client library kazoo (`pip install "kazoo<2.12"`)')
    try:
        find_java(environment)
    except NoJava as error:
        missing.append(f"Java {OLDEST_JAVA} or newer, but {error} ({HOW_TO_GET_JAVA})")
    try:
        require_jars(jars, environment)
    except CommandError:
        if jars or environment.get("ZOOKEEPER_JARS"):
            raise
        missing.append("ZooKeeper's jars (`pip install pyspark`, which carries them, or --jars)")
    return missing


def _serving_version(port: int) -> str | None:
    """What the server says about itself; None while it does not serve yet."""
    try:
        with socket.create_connection((HOST, port), timeout=1.0) as connection:
            connection.sendall(b"srvr")
            connection.settimeout(1.0)
            said = b""
            while chunk := connection.recv(4096):
                said += chunk
    except OSError:
        return None
    first, _, rest = said.decode(errors="replace").partition("\n")
    if not first.startswith("Zookeeper version:") or "Mode:" not in rest:
        return None
    return first.removeprefix("Zookeeper version:").split("-")[0].strip()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port
