"""`ottla serve`: gathers the arguments and hands over to the server.

It parses with argparse, because the broker's promise is to be ready in half a second: the library behind the other
commands would cost a tenth of that before the first line of the broker runs.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

EXAMPLES = """\
Examples:
  ottla serve
  ottla serve --data-dir ./data --listen 127.0.0.1:9092
  ottla serve config/server.properties --set num.partitions=3
  ottla serve --workers 4
"""


def run(arguments: Sequence[str], *, is_child: bool = False) -> int:
    """`is_child`: another command started it, which speaks to people."""
    options = _parser().parse_args(arguments)
    from ottla.server.main import serve

    overrides = dict(options.overrides)
    if options.workers == 1:
        return serve(options.properties, options.data_dir, options.listen, overrides, hints=not is_child)
    return _run_workers(options, overrides)


def _run_workers(options: argparse.Namespace, overrides: dict[str, str]) -> int:
    from ottla.cli.workers import serve_with_workers
    from ottla.config.definition import ConfigError
    from ottla.server.broker import StartupError
    from ottla.server.main import load_config

    try:
        config = load_config(options.properties, options.data_dir, options.listen, overrides)
        arguments = [] if options.properties is None else [str(options.properties)]
        arguments += [part for key, value in overrides.items() for part in ("--set", f"{key}={value}")]
        return serve_with_workers(config, arguments, options.workers)
    except (ConfigError, StartupError) as error:
        print(f"Ottla cannot start: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ottla serve",
        description="Start a broker, ready when it prints `Ottla is ready`. Ctrl-C or SIGTERM stops it cleanly.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "properties",
        nargs="?",
        type=_existing_file,
        metavar="server.properties",
        help="a Kafka server.properties file, accepted unchanged",
    )
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="where topics are stored (log.dirs)")
    parser.add_argument(
        "--listen", metavar="HOST:PORT", help="address to serve on (listeners); port 0 picks a free one"
    )
    parser.add_argument(
        "--set",
        dest="overrides",
        action="append",
        default=[],
        type=_key_and_value,
        metavar="KEY=VALUE",
        help="set one broker setting, over the file; may be repeated",
    )
    parser.add_argument(
        "--workers",
        type=_count,
        default=1,
        metavar="N",
        help="run N brokers with consecutive ids and ports as one cluster, to use N cores of this host",
    )
    return parser


def option_names() -> list[str]:
    """For the completion of shells."""
    return re.findall(r"--[a-z-]+", _parser().format_usage())


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of workers")
    return int(text)


def _existing_file(text: str) -> Path:
    path = Path(text)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"there is no file {text}")
    return path


def _key_and_value(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form KEY=VALUE")
    return key.strip(), value.strip()
