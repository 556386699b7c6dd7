"""Every command and program of README.md runs as it is written, in the order of the page.

The page uses 127.0.0.1:9092. Another broker may have this port, so the tests use a free one: commands get it by
OTTLA_BOOTSTRAP_SERVER, and in programs the address is replaced. The blocks on Spark run in tests/spark/test_readme.py.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import readme
from tests.readme import ROOT
from tests.server.broker_process import BrokerProcess

INSTALLS = ["pip install .", "pipx install .", "uvx --from . ottla serve", "pip wheel --no-deps ."]
"""tests/requirements/test_wheel.py builds and installs the wheel. pipx and uvx are not among the tools of the tests."""

Shell = Callable[[str], str]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place that looks like a checkout after `make run`."""
    directory = tmp_path_factory.mktemp("checkout")
    (directory / ".venv" / "bin").mkdir(parents=True)
    program = directory / ".venv" / "bin" / "ottla"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m ottla "$@"\n')
    program.chmod(0o755)
    return directory


@pytest.fixture(scope="module")
def broker(directory: Path) -> Iterator[str]:
    """A broker with the options that `make run` gives it, on another port."""
    [serve] = [line for line in recipe("run") if " serve " in line]
    assert serve == f".venv/bin/ottla serve --data-dir data --listen {readme.ADDRESS}"
    program, *options = serve.replace(readme.ADDRESS, "127.0.0.1:0").split()
    options[options.index("data")] = str(directory / "data")
    process = BrokerProcess([str(directory / program), *options])
    yield process.bootstrap_servers
    process.kill()


@pytest.fixture(scope="module")
def shell(directory: Path, broker: str) -> Shell:
    environment = {
        **os.environ,
        "OTTLA_BOOTSTRAP_SERVER": broker,
        "PATH": f"{directory / '.venv' / 'bin'}:{os.environ['PATH']}",
        "NO_COLOR": "1",
    }

    def run(command: str) -> str:
        done = subprocess.run(
            command, shell=True, cwd=directory, env=environment, capture_output=True, text=True, timeout=90
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    return run


def recipe(target: str) -> list[str]:
    """The commands of a make target. `make test` passes its variables on, so they are left out here."""
    command = ["make", "--no-print-directory", "-n", target]
    done = subprocess.run(
        command, cwd=ROOT, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_install_and_first_message_are_three_lines(shell: Shell) -> None:
    install, *others = readme.commands("The first message")
    assert install.text == "make run"
    assert len(others) == 2
    outputs = [shell(command.text) for command in others]
    assert outputs[-1] == others[-1].output == "hello\n"


def test_the_program_and_the_commands_after_it(shell: Shell, broker: str) -> None:
    [program] = readme.programs("Use it")
    assert readme.ADDRESS in program
    exec(compile(program.replace(readme.ADDRESS, broker), "README.md", "exec"), {})
    outputs = {command.text: shell(command.text) for command in readme.commands("Use it")}
    described, consumed, group, configs, doctor = outputs.values()
    assert described.startswith("clicks: ")
    assert consumed == '{"page": "/index.html"}\n' * 2
    assert "readers" in group
    assert "retention.ms=" in configs
    assert "FAIL" not in doctor


def test_the_test_and_the_embedded_broker(pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    test, embedded = readme.programs("Test your own code with a real broker")
    pytester.makepyfile(test)
    pytester.runpytest_subprocess("-p", "no:xdist", "-p", "no:cacheprovider").assert_outcomes(passed=1)
    capsys.readouterr()
    exec(compile(embedded, "README.md", "exec"), {})
    assert re.fullmatch(r"127\.0\.0\.1:\d+\n", capsys.readouterr().out)


def test_every_block_belongs_to_a_test() -> None:
    assert {(block.section, block.language) for block in readme.blocks()} == {
        ("The first message", "console"),
        ("Use it", "python"),
        ("Use it", "console"),
        ("Test your own code with a real broker", "python"),
        ("Data work on Spark", "python"),
        ("Data work on Spark", "console"),
    }


def test_every_make_target_exists() -> None:
    named = {text.split()[1] for text in readme.inline_code() if text.startswith("make ")}
    assert {"demo", "test", "bench"} <= named
    assert named <= make_targets()


def test_the_long_targets_run_commands_that_exist(shell: Shell) -> None:
    """`make demo` and `make bench` take minutes, so their commands are only asked for help."""
    for target in ("demo", "bench"):
        command = recipe(target)[-1].replace(".venv/bin/python", f"cd {ROOT} && {sys.executable}")
        assert shell(f"{command} --help")


@pytest.mark.parametrize("text", sorted({it for it in readme.inline_code() if it.startswith("ottla ")}))
def test_commands_in_sentences_exist(text: str, shell: Shell) -> None:
    words = [word for word in text.split()[1:] if re.fullmatch(r"-*[a-z][a-z-]*", word)]
    subcommands = [word for word in words if not word.startswith("-")]
    help_text = shell(" ".join(["ottla", *subcommands, "--help"]))
    assert all(word in help_text for word in words if word.startswith("-"))


def test_every_form_of_an_installation_is_known() -> None:
    forms = [text for text in readme.inline_code() if text.startswith(("pip", "uvx"))]
    assert [text for text in forms if "[" not in text] == INSTALLS
    extras = re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text().partition("optional-")[2], re.MULTILINE)
    assert all(re.fullmatch(rf'pip install "\.\[({"|".join(extras)})\]"', text) for text in forms if "[" in text)
