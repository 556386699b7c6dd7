"""`ottla serve`: runs one broker in the foreground until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ottla.config.broker import BrokerConfig
from ottla.config.definition import ConfigError
from ottla.config.load import static_config
from ottla.env.file_limit import raise_file_limit
from ottla.env.network import Address
from ottla.server.broker import BrokerServer, ShutdownError, StartupError
from ottla.server.event_loop import new_event_loop

_LOG_FORMAT = "[%(asctime)s] %(levelname)s %(message)s (%(name)s)"
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}
logger = logging.getLogger("ottla.server")


def serve(
    properties: Path | None = None,
    data_dir: Path | None = None,
    listen: str | None = None,
    overrides: Mapping[str, str] | None = None,
    *,
    hints: bool = True,
) -> int:
    """Run a broker. With `hints`, print commands to try.

    Returns the exit code: 0 after a clean stop, 1 if the broker could not start or stop cleanly.
    """
    logging.basicConfig(format=_LOG_FORMAT, level=logging.INFO, stream=sys.stdout)
    logging.raiseExceptions = False  # The broker must keep serving if its output is closed.
    raise_file_limit()
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
    """The static settings from the file, the environment, the options and `--set`. Later sources win."""
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
    say_ready([f"{name}://{dialable(address)}" for name, address in server.addresses.items()], hints=hints)
    await stop.wait()
    server.watchdog.stop()
    logger.info("stopping")
    await server.stop()
    logger.info("stopped cleanly")


async def _start(server: BrokerServer, stop: asyncio.Event) -> bool:
    """Start the broker. Returns False if a signal stops it before: a start may wait long, for example for ZooKeeper."""
    starting, stopping = asyncio.ensure_future(server.start()), asyncio.ensure_future(stop.wait())
    await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not starting.done():
        starting.cancel()
        await asyncio.wait([starting])
        if starting.cancelled():
            logger.info("stopped before the broker was ready")
            return False
    await starting
    return True


def dialable(address: Address) -> Address:
    """An address that a client on this machine can dial. A listener on every interface is reached over loopback."""
    return address._replace(host=_LOOPBACK.get(address.host, address.host))


def say_ready(listeners: Sequence[str], *, hints: bool = True) -> None:
    """Print the addresses, and commands to try that work however often the broker was started before."""
    if hints:
        bootstrap = listeners[0].partition("://")[2]
        option = "" if bootstrap == "127.0.0.1:9092" else f" --bootstrap-server {bootstrap}"
        command = _command()
        print("Try, in another terminal:")
        print(f"  {command} topics create clicks --partitions 3 --if-not-exists{option}")
        print(f"  echo hello | {command} produce clicks{option}")
        print(f"  {command} consume clicks --from-beginning{option}")
    print(f"Ottla is ready: {', '.join(listeners)}", flush=True)


def _command() -> str:
    """How to call this program from another terminal in the same directory, so that what is printed can be pasted."""
    # `uv run` and `uvx` change PATH for this process only, and tell so by this variable.
    if shutil.which("ottla") is not None and "UV" not in os.environ:
        return "ottla"
    return sys.argv[0] if os.path.basename(sys.argv[0]) == "ottla" else f"{sys.executable} -m ottla"
