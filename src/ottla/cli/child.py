"""A process that ends with its parent: `python -m ottla.cli.child PARENT serve ...` or `... PARENT exec COMMAND ...`.

Whoever starts brokers stops them, but a parent that is killed cannot. So the child gets SIGTERM when its parent ends,
also after `exec`.
"""

import os
import sys
from collections.abc import Sequence

from ottla.env.platform import end_with_parent


def child_command(arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "ottla.cli.child", str(os.getpid()), *arguments]


def main(arguments: Sequence[str]) -> int:
    parent, what, *rest = arguments
    end_with_parent(int(parent))
    if os.getppid() != int(parent):
        return 1  # It was killed before it could be noticed.
    if what == "exec":
        os.execv(rest[0], rest)
    from ottla.cli.serve import run

    return run(rest, is_child=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
