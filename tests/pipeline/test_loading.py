"""From `FILE[:NAME]` to pipelines."""

from pathlib import Path

import pytest

from ottla.pipeline.failures import PipelineError
from ottla.pipeline.loading import BUILT_IN, load_part, load_target

FILE = """\
from ottla.pipeline import parameter, pipeline, to_console, topics
from beside import TOPIC

source = topics(parameter("topic", TOPIC))

@pipeline(source, to=to_console())
def first(rows):
    return rows

@pipeline(source, to=to_console())
def second(rows):
    return rows
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "beside.py").write_text('TOPIC = "clicks"\n')
    path = tmp_path / "job.py"
    path.write_text(FILE)
    return path


def test_all_pipelines_of_a_file(file: Path) -> None:
    target = load_target(str(file))
    assert target.label == "job"
    assert [each.name for each in target.pipelines] == ["first", "second"]
    assert target.pipelines[0].topics == ("clicks",)


def test_one_of_them(file: Path) -> None:
    target = load_target(f"{file}:second")
    assert [each.name for each in target.pipelines] == ["second"]
    assert [each.name for each in target.everything] == ["second", "first"]


def test_parameters_reach_the_file(file: Path) -> None:
    assert load_target(str(file), {"topic": "views"}).pipelines[0].topics == ("views",)
    assert load_target(str(file)).pipelines[0].topics == ("clicks",)
    with pytest.raises(PipelineError, match="has no parameter tropic"):
        load_target(str(file), {"tropic": "views"})


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("def f(:\n", r"broken\.py:1 cannot be read: SyntaxError"),
        ("import nowhere_to_be_found\n", r"broken\.py:1 cannot be read: ModuleNotFoundError"),
        ("\n\nfrom ottla.pipeline import topics\ntopics()\n", r"broken\.py:4 cannot be read: ValueError: topics\(\)"),
        ("x = 1\n", "declares no pipeline"),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "broken.py"
    path.write_text(text)
    with pytest.raises(PipelineError, match=complaint):
        load_target(str(path))


def test_what_is_not_there(file: Path) -> None:
    with pytest.raises(PipelineError, match=r"There is no file nowhere\.py; the built-in pipelines are activity"):
        load_target("nowhere.py")
    with pytest.raises(PipelineError, match="has no pipeline third; it has first, second"):
        load_target(f"{file}:third")
    with pytest.raises(PipelineError, match="nothing is not built in"):
        load_part("nothing", "traffic")


@pytest.mark.parametrize("name", BUILT_IN)
def test_what_is_built_in_can_be_read(name: str) -> None:
    assert load_target(name).pipelines
    assert load_part(name, "traffic").TOPICS.keys() >= set(load_target(name).pipelines[0].topics)
    assert callable(load_part(name, "report").report)


def test_each_export_has_a_checkpoint_of_its_own() -> None:
    assert load_target("export", {"topic": "views"}).pipelines[0].name == "views"
