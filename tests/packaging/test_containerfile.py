"""The container file, as far as it can be checked without a container engine: its text and its steps."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.server.broker_process import BrokerProcess

ROOT = Path(__file__).parents[2]
FILE = ROOT / "packaging" / "Containerfile"
INSTALLED = "/opt/ottla"


class Step(NamedTuple):
    instruction: str
    arguments: str


def stages() -> list[list[Step]]:
    """The steps of each stage. Comments are left out, and continued lines are joined."""
    lines = [line for line in FILE.read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    found: list[list[Step]] = []
    for line in filter(None, joined.splitlines()):
        step = Step(*line.split(maxsplit=1))
        if step.instruction == "FROM":
            found.append([])
        found[-1].append(step)
    return found


def arguments_of(stage: list[Step], instruction: str) -> list[str]:
    return [step.arguments for step in stage if step.instruction == instruction]


def exec_form(text: str) -> list[str]:
    """The command of CMD or ENTRYPOINT in JSON: such a command needs no shell and gets the signals itself."""
    command = json.loads(text)
    assert isinstance(command, list)
    return command


def environment(stage: list[Step]) -> dict[str, str]:
    return dict(word.split("=", 1) for text in arguments_of(stage, "ENV") for word in text.split())


def test_two_stages_of_the_same_image() -> None:
    build, final = stages()
    assert build[0].arguments == final[0].arguments + " AS build"
    assert final[0].arguments.endswith("-slim")


def test_the_final_stage_has_the_broker_and_no_build_tools() -> None:
    _, final = stages()
    assert arguments_of(final, "COPY") == [f"--from=build {INSTALLED} {INSTALLED}"]
    assert not any("pip" in text for text in arguments_of(final, "RUN"))


def test_the_user_is_not_root_and_owns_the_data() -> None:
    _, final = stages()
    [user] = arguments_of(final, "USER")
    assert int(user) > 0
    [created] = arguments_of(final, "RUN")
    assert f"--uid {user} " in created
    [data] = arguments_of(final, "VOLUME")
    assert f"--owner ottla --group ottla {data}" in created
    assert environment(final)["KAFKA_LOG_DIRS"] == data


def test_what_is_copied_exists_and_is_sent_to_the_builder() -> None:
    build, _ = stages()
    sources = [name for text in arguments_of(build, "COPY") for name in text.split()[:-1]]
    assert all((ROOT / name).exists() for name in sources)
    sent = (FILE.parent / "Containerfile.dockerignore").read_text().splitlines()
    assert sent[0] == "*"
    assert {line.removeprefix("!") for line in sent if line.startswith("!")} == set(sources)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_steps_make_a_broker_that_its_health_check_finds(tmp_path: Path) -> None:
    build, final = stages()
    installed = tmp_path / "opt"
    run_build(build, tmp_path / "src", tmp_path / "python", installed)

    path = f"{installed / 'bin'}:{os.environ['PATH']}"
    settings = {name: value for name, value in environment(final).items() if name.startswith("KAFKA_")}
    settings |= {"KAFKA_LOG_DIRS": str(tmp_path / "data"), "KAFKA_LISTENERS": "PLAINTEXT://127.0.0.1:0"}
    [entry_point] = arguments_of(final, "ENTRYPOINT")
    program, *rest = exec_form(entry_point)
    broker = BrokerProcess([str(installed / "bin" / program), *rest], {"PYTHONPATH": "", **settings})
    try:
        [health_check] = arguments_of(final, "HEALTHCHECK")
        command = exec_form(health_check.partition(" CMD ")[2])
        asking = {"PATH": path, "OTTLA_BOOTSTRAP_SERVER": broker.bootstrap_servers}
        healthy = subprocess.run(command, env=asking, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert (healthy.returncode, healthy.stderr) == (0, "")
        assert broker.terminate() == 0
        ill = subprocess.run(command, env=asking, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert ill.returncode == 1
    finally:
        broker.kill()
    assert not list(installed.glob("lib/python*/site-packages/hatchling"))
    assert list(installed.glob("lib/python*/site-packages/kazoo"))


def run_build(stage: list[Step], work: Path, python: Path, installed: Path) -> None:
    """The steps with the working directory and the target in other places, and a fresh virtual environment for the
    Python of the image."""
    work.mkdir()
    subprocess.run([sys.executable, "-m", "venv", str(python)], check=True)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON"))}
    variables = {**inherited, "PATH": f"{python / 'bin'}:{os.environ['PATH']}", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    for instruction, text in stage:
        if instruction == "COPY":
            copy(work, *text.split())
        elif instruction == "RUN":
            command = text.replace(INSTALLED, str(installed))
            done = subprocess.run(command, shell=True, cwd=work, env=variables, capture_output=True, text=True)
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        else:
            assert instruction in ("FROM", "WORKDIR")


def copy(work: Path, *names: str) -> None:
    *sources, target = names
    for name in sources:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, work / target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, work / target)
