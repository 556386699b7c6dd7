"""docs/spark.md: its programs run, its tables name every option, and what it says is said is said."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ottla
from ottla.spark import log_options, options, sink_options
from tests.spark import topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "spark.md").read_text()
SOURCES = [
    *ROOT.glob("src/ottla/spark/*.py"),
    *ROOT.glob("src/pyspark_ottla/*.py"),
    *ROOT.glob("src/ottla/client/*.py"),
]
SOURCES += [ROOT / "src/ottla/env/java.py", ROOT / "src/ottla/pipeline/java.py"]


def section(title: str) -> str:
    [text] = re.findall(rf"^##+ {title}\n(.*?)(?=^##? |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    return str(text)


def named_options(title: str) -> set[str]:
    """The first column of the tables whose head says `option`."""
    tables = re.findall(r"^\| option \|.*?(?=^\s*$|\Z)", section(title), re.DOTALL | re.MULTILINE)
    return {name for table in tables for name in re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)}


def plain(names: set[str]) -> set[str]:
    return {name for name in names if not name.startswith("kafka.")}


@pytest.mark.parametrize(
    ("title", "known"),
    [
        ("Reading", options._BY_LOWER_NAME),
        ("Writing", {name: name for name in sink_options._NAMES}),
        ("Segment files", log_options._BY_LOWER_NAME),
    ],
)
def test_every_option_is_in_its_table_and_no_other(title: str, known: Mapping[str, str]) -> None:
    assert plain(named_options(title)) == set(known.values())


def test_the_settings_of_the_client_are_those_that_are_read() -> None:
    text = (ROOT / "src/ottla/spark/options.py").read_text()
    taken = set(re.findall(r'values\.(?:take|number|seconds)\("([^"]+)"', text)) | {"bootstrap.servers"}
    assert {f"kafka.{name}" for name in taken} == named_options("Reading") - plain(named_options("Reading"))


def test_every_complaint_is_one_that_is_made() -> None:
    """What varies is left out with an ellipsis; what comes from Spark itself is in brackets, or a Python error."""
    complaints = re.findall(r"^\| `([^`]+)`", section("When it does not work"), re.MULTILINE)
    said = " ".join(re.sub(r'"\s*\n\s*f?"', "", path.read_text()) for path in SOURCES)
    said = re.sub(r"\{[^{}]*\}", "…", said)
    for complaint in complaints:
        if complaint.startswith(("[", "ModuleNotFoundError", "Python worker")):
            continue
        for part in complaint.split("…"):
            fixed = re.sub(r"\d+", "…", part.strip(" :,();"))
            for piece in fixed.split("…"):
                assert piece.strip(" :,();") in said, f"{complaint!r}: nothing says {piece!r}"


def values(bootstrap: str, topic: str) -> list[bytes]:
    return sorted(row.value or b"" for row in topics.consume(bootstrap, topic, 2, "read_committed"))


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_programs_run_from_top_to_bottom(spark: "SparkSession", tmp_path: Path) -> None:
    programs = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert len(programs) > 8
    with ottla.embedded(data_dir=tmp_path / "broker") as broker:
        bootstrap = broker.bootstrap_servers
        for name in ("clicks", "pages", "loud-clicks", "archive"):
            topics.make_topic(bootstrap, 2, name=name)
        topics.fill(bootstrap, "clicks", [(index % 2, b"/page-%d" % index) for index in range(20)])
        namespace: dict[str, object] = {}
        for program in programs:
            here = program.replace("127.0.0.1:9092", bootstrap).replace('"/data/', f'"{tmp_path}/')
            exec(compile(here.replace("/var/lib/ottla", f"{tmp_path}/broker"), "docs/spark.md", "exec"), namespace)
        expected = sorted(b"/page-%d" % index for index in range(20))
        assert values(bootstrap, "pages") == [b"/about.html", b"/index.html"]
        assert values(bootstrap, "archive") == expected
        assert [value.lower() for value in values(bootstrap, "loud-clicks")] == expected
        assert topics.committed(bootstrap, "pages-in-spark", "clicks", 2) == [10, 10]
    assert len(spark.read.parquet(f"{tmp_path}/pages").collect()) == 20
