"""A few seconds of seeds, and that a seed is a whole story: it tells the same one each time, in any process."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

import ottla
from sim.__main__ import kept_seeds, main
from sim.run import run_seed

ROOT = Path(__file__).parents[2]
PACKAGES = Path(ottla.__file__).parents[1]


@pytest.mark.parametrize("seed", kept_seeds())
def test_a_seed_that_found_a_bug_once_finds_none(seed: int) -> None:
    assert run_seed(seed).violations == []


@pytest.mark.parametrize("part", range(8))
def test_these_seeds_break_no_promise(part: int) -> None:
    for seed in range(5 * part, 5 * part + 5):
        result = run_seed(seed)
        assert result.violations == [], f"to run it again: make sim SEED={seed}"
        assert result.acknowledged > 0


@pytest.mark.parametrize("part", range(4))
def test_seeds_that_nobody_has_seen_before_break_no_promise(part: int) -> None:
    first = random.SystemRandom().randrange(1 << 31)
    for seed in range(first, first + 6):
        assert run_seed(seed).violations == [], f"to run it again: make sim SEED={seed}"


def test_a_seed_tells_the_same_story_in_every_process() -> None:
    """Also when strings hash differently, as they do from one process to the next."""
    digests = {run_seed(5).digest}
    for hash_seed in ("1", "2"):
        command = [sys.executable, "-c", "from sim.run import run_seed; print(run_seed(5).digest)"]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{PACKAGES}:{ROOT}"}
        told = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True)
        digests.add(told.stdout.strip())
    assert len(digests) == 1


def test_seeds_differ() -> None:
    assert len({run_seed(seed).digest for seed in (1, 2, 3)}) == 3


def test_a_failure_says_how_to_see_it_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a broker that acknowledges what its followers do not have."""
    monkeypatch.setattr(
        "ottla.replication.followers.Followers.committed_offset", lambda followers, leader_end: leader_end
    )
    failing = next(seed for seed in range(40) if run_seed(seed).violations)
    assert main(["--seed", str(failing)]) == 1
    assert f"make sim SEED={failing}" in capsys.readouterr().out
