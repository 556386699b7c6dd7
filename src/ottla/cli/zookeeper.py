"""`ottla zookeeper`: a ZooKeeper server for development, so that a cluster can be tried without installing one."""

from pathlib import Path
from typing import Annotated

import typer

from ottla.cli.command_error import CommandError
from ottla.cli.options import single
from ottla.cli.zookeeper_server import ZooKeeperServer, require_jars, require_java

DEFAULT_PORT = 2181

app = single()


@app.command()
def zookeeper(
    data_dir: Annotated[
        Path, typer.Option("--data-dir", metavar="DIR", help="Where the server keeps its data and its log.")
    ] = Path("zookeeper"),
    port: Annotated[
        int,
        typer.Option(
            "--port", metavar="PORT", min=0, max=65535, help="Port to listen on, on 127.0.0.1; 0 picks a free one."
        ),
    ] = DEFAULT_PORT,
    jars: Annotated[
        Path | None,
        typer.Option("--jars", metavar="DIR", help="ZooKeeper's jars (ZOOKEEPER_JARS); else those inside PySpark."),
    ] = None,
) -> None:
    """Run one ZooKeeper server on this machine, for development, until Ctrl-C or SIGTERM.

    It listens on loopback only and asks nobody for credentials. A cluster that matters needs an ensemble of three or
    five servers on machines of their own.

    \b
    Examples:
      ottla zookeeper
      ottla zookeeper --data-dir ./zk --port 2182
    """
    server = ZooKeeperServer(require_java(), require_jars(jars), data_dir, port)
    try:
        version = server.start()
        print(f"ZooKeeper {version} is ready: {server.address}", flush=True)
        code = server.wait()
    except KeyboardInterrupt:
        print("Stopping ZooKeeper ...", flush=True)
        return
    finally:
        server.stop()
    raise CommandError(f"ZooKeeper ended with exit code {code}; see {server.log_path}.")
