"""`ottla serve`: one broker in the foreground until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ottla.config.broker import BrokerConfig
from ottla.config.definition import ConfigError
from ottla.config.load import static_config
from ottla.server.broker import BrokerServer, ShutdownError, StartupError
from ottla.server.event_loop import new_event_loop

_LOG_FORMAT = "[%(asctime)s] %(levelname)s %(message)s (%(name)s)"
logger = logging.getLogger("ottla.server")


def serve(
    properties: Path | None = None,
    data_dir: Path | None = None,
    listen: str | None = None,
    overrides: Mapping[str, str] | None = None,
    *,
    hints: bool = True,
) -> int:
    """Run a broker, with `hints` for the person who started it.

    Returns the exit code: 0 after a clean stop, 1 when it could not start or stop well.
    """
    logging.basicConfig(format=_LOG_FORMAT, level=logging.INFO, stream=sys.stdout)
    logging.raiseExceptions = False  # A broker goes on serving if its output is closed.
    _raise_file_limit()
    try:
        config = load_config(properties, data_dir, listen, overrides or {})
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_run(config, hints))
    except (StartupError, ConfigError) as error:
        print(f"Ottla cannot start: {error}", file=sys.stderr)
        return 1
    except ShutdownError as error:
        print(f"Ottla has stopped, but not cleanly: {error}", file=sys.stderr)
        return 1
    return 0


def load_config(
    properties: Path | None, data_dir: Path | None, listen: str | None, overrides: Mapping[str, str]
) -> BrokerConfig:
    """The static settings: file, then environment, then options, then `--set`; later ones win."""
    text = ""
    if properties is not None:
        try:
            text = properties.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise StartupError(f"{properties} cannot be read: {error}") from None
    settings = static_config(text, os.environ)
    if data_dir is not None:
        settings["log.dirs"] = str(data_dir)
    if listen is not None:
        settings["listeners"] = listen if "://" in listen else f"PLAINTEXT://{listen}"
    return BrokerConfig(settings | dict(overrides))


async def _run(config: BrokerConfig, hints: bool) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    server = BrokerServer(config)
    if not await _start(server, stop):
        return
    # Objects that exist now live as long as the broker, so the garbage collector can skip them.
    gc.collect()
    gc.freeze()
    server.watchdog.start()
    say_ready([f"{name}://{address}" for name, address in server.addresses.items()], hints=hints)
    await stop.wait()
    server.watchdog.stop()
    logger.info("stopping")
    await server.stop()
    logger.info("stopped cleanly")


async def _start(server: BrokerServer, stop: asyncio.Event) -> bool:
    """Returns False if it was told to stop meanwhile: starting may take long, waiting for ZooKeeper for example."""
    starting, stopping = asyncio.ensure_future(server.start()), asyncio.ensure_future(stop.wait())
    await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not starting.done():
        starting.cancel()
        await asyncio.wait([starting])
        if starting.cancelled():
            logger.info("stopped before it was ready")
            return False
    await starting
    return True


def say_ready(listeners: Sequence[str], *, hints: bool = True) -> None:
    if hints:
        bootstrap = listeners[0].partition("://")[2]
        option = "" if bootstrap == "127.0.0.1:9092" else f" --bootstrap-server {bootstrap}"
        command = _command()
        print("Try, in another terminal:")
        print(f"  {command} topics create clicks --partitions 3{option}")
        print(f"  echo hello | {command} produce clicks{option}")
        print(f"  {command} consume clicks --from-beginning --group g{option}")
    print(f"Ottla is ready: {', '.join(listeners)}", flush=True)


def _command() -> str:
    """How to call this program from where it was started, so that what is printed can be pasted."""
    if shutil.which("ottla") is not None:
        return "ottla"
    return sys.argv[0] if os.path.basename(sys.argv[0]) == "ottla" else f"{sys.executable} -m ottla"


def _raise_file_limit() -> None:
    """A broker has a file for every segment and a socket for every client; the soft limit is often 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
