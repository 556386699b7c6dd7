"""The progress that `make run` and the others show while pip works."""

import sys

import pytest

from requirements.install import Progress, Steps, locked_packages

PIP = """\
Ignoring colorama: markers 'sys_platform == "win32"' don't match your environment
Requirement already satisfied: mdurl==0.1.2 in ./.venv/lib (from -r requirements/run.lock (line 3)) (0.1.2)
Collecting cramjam==2.14.0 (from -r requirements/run.lock (line 4))
  Downloading cramjam-2.14.0-cp311-cp311-manylinux_2_17_x86_64.whl (2.0 MB)
Collecting typer==0.28.0 (from -r requirements/run.lock (line 5))
  Using cached typer-0.28.0-py3-none-any.whl (123 kB)
Building wheels for collected packages: cramjam
  Building wheel for cramjam (pyproject.toml): started
Installing collected packages: typer, cramjam
Successfully installed cramjam-2.14.0 typer-0.28.0
"""


def test_every_step_says_which_of_how_many() -> None:
    steps = Steps(4)
    assert steps.describe() == "looking for packages"
    said = [steps.describe() for line in PIP.splitlines() if steps.read(line)]
    assert said == [
        "fetching 2 of 3: cramjam 2.14.0 (2.0 MB)",
        "fetching 3 of 3: typer 0.28.0",
        "building cramjam",
        "unpacking 0 of 2 packages",
    ]
    assert steps.describe(1) == "unpacking 1 of 2 packages"


def test_packages_of_a_lock_file() -> None:
    lock = (
        "rich==15.0.0 \\\n    --hash=sha256:aa\nuvloop==0.23.0 ; sys_platform != 'win32' \\\n    --hash=sha256:bb==\n"
    )
    assert locked_packages(lock) == ["rich", "uvloop"]


def test_elsewhere_than_on_a_terminal_progress_is_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress()
    progress.step("preparing .venv")
    progress.tick("preparing .venv")
    progress.step("fetching 1 of 2: rich 15.0.0")
    progress.end("installed")
    assert capsys.readouterr().out == (
        "    0 s  preparing .venv\n    0 s  fetching 1 of 2: rich 15.0.0\n    0 s  installed\n"
    )


def test_on_a_terminal_each_line_erases_the_one_before(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    progress = Progress()
    progress.step("fetching 1 of 2: rich 15.0.0")
    progress.step("linking this checkout")
    progress.end("installed")
    shown = ""
    for line in capsys.readouterr().out.removesuffix("\n").split("\r"):
        shown = line + shown[len(line) :]
    assert shown.rstrip() == "    0 s  installed"
