"""A process that ends with its parent: `python -m ottla.cli.child PARENT serve ...` or `... PARENT exec COMMAND ...`.

Whoever starts brokers stops them, but a parent that is killed cannot. So the kernel is asked to tell the child, which
then stops as if it had been told to; what is executed instead of this program inherits the request.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1


def child_command(arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "ottla.cli.child", str(os.getpid()), *arguments]


def main(arguments: Sequence[str]) -> int:
    parent, what, *rest = arguments
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(parent):
        return 1  # It was killed before it could be noticed.
    if what == "exec":
        os.execv(rest[0], rest)
    from ottla.cli.serve import run

    return run(rest, is_child=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
