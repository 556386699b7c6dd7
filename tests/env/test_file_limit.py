"""The limit of open files: the real one, and limits as macOS has them."""

import resource
import subprocess
import sys

import pytest

from ottla.env.file_limit import BOUND_OF_MACOS, file_limit, raise_file_limit

UNLIMITED = resource.RLIM_INFINITY


class Limits:
    """A system that refuses a soft limit above its bound."""

    def __init__(self, soft: int, hard: int, bound: int) -> None:
        self.now = (soft, hard)
        self._bound = bound

    def get(self, kind: int) -> tuple[int, int]:
        assert kind == resource.RLIMIT_NOFILE
        return self.now

    def set(self, kind: int, wanted: tuple[int, int]) -> None:
        assert kind == resource.RLIMIT_NOFILE
        if wanted[0] == UNLIMITED or wanted[0] > self._bound:
            raise ValueError("current limit exceeds maximum limit")
        self.now = wanted


@pytest.mark.parametrize(
    ("soft", "hard", "bound", "raised"),
    [
        (1024, 4096, 4096, 4096),
        (4096, 4096, 4096, 4096),
        (256, UNLIMITED, BOUND_OF_MACOS, BOUND_OF_MACOS),
        (20_000, UNLIMITED, 20_000, 20_000),
        (256, UNLIMITED, 256, 256),
        (256, 50_000, BOUND_OF_MACOS, BOUND_OF_MACOS),
    ],
)
def test_the_limit_is_raised_as_far_as_the_system_allows(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, bound: int, raised: int
) -> None:
    limits = Limits(soft, hard, bound)
    monkeypatch.setattr(resource, "getrlimit", limits.get)
    monkeypatch.setattr(resource, "setrlimit", limits.set)
    assert file_limit() == soft
    raise_file_limit()
    assert limits.now == (raised, hard)
    assert file_limit() == raised


def test_no_limit_counts_as_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = Limits(UNLIMITED, UNLIMITED, 0)
    monkeypatch.setattr(resource, "getrlimit", limits.get)
    monkeypatch.setattr(resource, "setrlimit", limits.set)
    raise_file_limit()
    assert file_limit() == BOUND_OF_MACOS


def test_the_limit_of_a_real_process_is_raised() -> None:
    program = (
        "import resource\n"
        "from ottla.env.file_limit import file_limit, raise_file_limit\n"
        "hard = min(2000, resource.getrlimit(resource.RLIMIT_NOFILE)[1])\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))\n"
        "before = file_limit()\n"
        "raise_file_limit()\n"
        "print(before, file_limit() == hard)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "200 True\n"
