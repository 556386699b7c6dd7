"""The console script: runs `ottla serve` directly, and every other command through the command tree."""

import os
import signal
import sys
from types import FrameType

COMPLETE_VARIABLE = "_OTTLA_COMPLETE"
"""The completion script sets this environment variable when a shell asks for completions."""


def main() -> int:
    """Run one command and return its exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["serve"]:
        # The libraries of the other commands would delay the start of a broker.
        from ottla.cli.serve import run

        return run(arguments[1:])
    return _run_command(arguments)


def _run_command(arguments: list[str]) -> int:
    from ottla.cli.app import app

    if COMPLETE_VARIABLE in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()

    signal.signal(signal.SIGTERM, _interrupt)
    try:
        app(arguments, prog_name="ottla")
    except SystemExit as stop:
        return _flush(stop.code if isinstance(stop.code, int) else 1)
    except KeyboardInterrupt:
        return _flush(130)
    except Exception as error:
        print(f"This is a bug in Ottla, please report it: {type(error).__name__}: {error}", file=sys.stderr)
        return _flush(1)
    return _flush(0)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    """SIGTERM ends a command as Ctrl-C does, with offsets committed."""
    raise KeyboardInterrupt


def _flush(code: int) -> int:
    """Write the buffered output. A reader that has ended (`| head`) is no failure; a full disk is one."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            print(f"The output could not be written: {error.strerror}.", file=sys.stderr)
            return 1
    return code
