"""The `spark` fixture after a test that broke the session, and the selection of the tests that use it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.__main__ import overall

ROOT = Path(__file__).parents[2]
LEAN = ("-p", "tests.spark.sessions", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:ottla")

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """pytest in its own process, with the plugin."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=":")
    return lambda *options: pytester.runpytest_subprocess(*LEAN, *options)


@pytest.mark.timeout(900)
def test_a_broken_session_is_replaced_for_the_next_test(pytester: pytest.Pytester, run: Run) -> None:
    """The JVM is killed, then a test with a time limit waits for the JVM for too long."""
    pytester.makepyfile(
        """
        import time
        import pytest

        seen = []

        def work(spark, spark_sessions):
            assert spark.range(5).count() == 5
            seen.append(spark_sessions.process.pid)

        def test_first(spark, spark_sessions):
            work(spark, spark_sessions)

        def test_second_has_the_same_session(spark, spark_sessions):
            work(spark, spark_sessions)
            assert seen[0] == seen[1]

        def test_jvm_is_killed(spark, spark_sessions):
            spark_sessions.process.kill()
            spark.range(5).count()

        def test_session_after_kill(spark, spark_sessions):
            work(spark, spark_sessions)
            assert seen[1] != seen[2]

        @pytest.mark.timeout(3, func_only=True)
        def test_time_limit(spark):
            spark.sparkContext._jvm.java.lang.Thread.sleep(100_000_000)

        def test_session_after_time_limit(spark, spark_sessions):
            work(spark, spark_sessions)

        def test_left_over_query(spark, tmp_path):
            rows = spark.readStream.format("rate").load()
            rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
            assert len(spark.streams.active) == 1

        def test_query_is_gone(spark):
            assert not spark.streams.active
        """
    )
    result = run("-v")
    result.assert_outcomes(passed=6, failed=2)
    result.stdout.fnmatch_lines(["*test_jvm_is_killed FAILED*", "*test_time_limit FAILED*"])


def test_tests_with_spark_are_marked_and_run_last(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture
        def table(spark):
            pass

        def test_direct(spark): pass
        def test_by_another_fixture(table): pass
        def test_without(): pass
        """
    )
    with_spark = ["*::test_direct", "*::test_by_another_fixture"]
    run("--collect-only", "-q").stdout.fnmatch_lines(["*::test_without", *with_spark], consecutive=True)
    apart = run("--collect-only", "-q", "-m", "spark_session")
    apart.stdout.fnmatch_lines(with_spark, consecutive=True)
    apart.stdout.no_fnmatch_line("*::test_without")


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ([0, 0], 0),
        ([1, 0], 1),
        ([0, 1], 1),
        ([-9, 0], -9),
        ([5, 0], 0),
        ([0, 5], 0),
        ([5, 1], 1),
        ([5, 5], 5),
        ([2], 2),
    ],
)
def test_exit_code_of_both_runs(codes: list[int], expected: int) -> None:
    assert overall(codes) == expected
