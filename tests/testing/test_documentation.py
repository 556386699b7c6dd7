"""Runs every snippet of docs/testing.md: tests with pytest, the others as programs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()
SNIPPETS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
PYTHON = [code for language, code in SNIPPETS if language == "python"]
TESTS = [code for code in PYTHON if "def test_" in code]
PROGRAMS = [code for code in PYTHON if "def test_" not in code]


def test_every_snippet_is_known() -> None:
    assert {language for language, _ in SNIPPETS} == {"python", "ini"}
    assert len(TESTS) == 5
    assert len(PROGRAMS) == 1


def test_the_tests_of_the_page_pass(pytester: pytest.Pytester) -> None:
    (settings,) = [code for language, code in SNIPPETS if language == "ini"]
    # Records of the page's tests must outlive the tests also on a slow machine.
    pytester.makeini(settings.replace("log.retention.ms=5000", "log.retention.ms=600000"))
    pytester.makepyfile(**{f"test_snippet_{number}": code for number, code in enumerate(TESTS)})
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-W", "error")
    result.assert_outcomes(passed=sum(code.count("def test_") for code in TESTS))


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_programs_of_the_page_run(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("127.0.0.1:") == 4


def test_the_settings_of_the_page_are_those_of_the_plugin(pytester: pytest.Pytester) -> None:
    (settings,) = [code for language, code in SNIPPETS if language == "ini"]
    pytester.makeini(settings)
    pytester.makepyfile(
        """
        from confluent_kafka.admin import AdminClient, ConfigResource

        def test_it(ottla_broker, ottla_topic):
            admin = AdminClient({"bootstrap.servers": ottla_broker.bootstrap_servers})
            resource = ConfigResource(ConfigResource.Type.BROKER, "1")
            found = admin.describe_configs([resource])[resource].result(60)
            assert (found["num.partitions"].value, found["log.retention.ms"].value) == ("3", "5000")
            assert len(admin.list_topics(timeout=60).topics[ottla_topic].partitions) == 3
        """
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)
