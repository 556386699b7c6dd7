"""`ottla serve`: gathers the arguments and hands over to the server.

It parses with argparse, because the broker's promise is to be ready in half a second: the library behind the other
commands would cost a tenth of that before the first line of the broker runs.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

EXAMPLES = """\
Examples:
  ottla serve
  ottla serve --data-dir ./data --listen 127.0.0.1:9092
  ottla serve config/server.properties --set num.partitions=3
"""


def run(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    from ottla.server.main import serve

    return serve(options.properties, options.data_dir, options.listen, dict(options.overrides))


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
    return parser


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
