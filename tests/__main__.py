"""All tests but the long Spark set, in two runs of pytest; both get the given arguments.

The second run has only the tests that use Spark in their process. A Spark that breaks there, or that a time limit
interrupts, cannot fail tests of other packages.
"""

import subprocess
import sys

import pytest

RUNS = (
    ("-n", "2", "--dist", "loadgroup", "-m", "not spark and not spark_session"),
    ("-m", "spark_session and not spark"),
)


def main(arguments: list[str]) -> int:
    codes = []
    for options in RUNS:
        codes.append(subprocess.run([sys.executable, "-m", "pytest", *options, *arguments], check=False).returncode)
        if codes[-1] == pytest.ExitCode.INTERRUPTED:
            break
    return overall(codes)


def overall(codes: list[int]) -> int:
    """The first failure. Arguments that select no test of one run are fine, as long as the other run has tests."""
    ran = [code for code in codes if code != pytest.ExitCode.NO_TESTS_COLLECTED]
    return next(filter(None, ran), 0) if ran else int(pytest.ExitCode.NO_TESTS_COLLECTED)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
