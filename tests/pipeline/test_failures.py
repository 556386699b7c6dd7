"""Errors of two languages as one sentence."""

import pytest

from ottla.pipeline.failures import PipelineError, sentence

NESTED = """\
[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to stage failure: Lost task 0.0
org.apache.spark.api.python.PythonException: [PYTHON_EXCEPTION] It was thrown: Traceback (most recent call last):
  File "/x/reading.py", line 65, in write
    raise inner
ValueError: an inner mistake
  File "/x/sink.py", line 65, in write
    raise outer
ottla.client.failures.GaveUp: metadata: gave up after 60 s: no broker could be reached
 SQLSTATE: 38000
\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:1097)
\tat java.base/java.lang.Thread.run(Thread.java:840)
Caused by: java.lang.RuntimeError: something later
=== Streaming Query ===
Identifier: job [id = 1, runId = 2]
"""


class SparkLikeError(Exception):
    def __init__(self, text: str, condition: str | None = None) -> None:
        super().__init__(text)
        self._condition = condition

    def getCondition(self) -> str | None:  # noqa: N802 - Spark's name
        return self._condition


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (PipelineError("plain already"), "plain already"),
        (SparkLikeError(NESTED), "metadata: gave up after 60 s: no broker could be reached"),
        (
            SparkLikeError(
                "Traceback (most recent call last):\n  File x\nZeroDivisionError: division by zero\n"
                "=== Streaming Query ===\nIdentifier: x"
            ),
            "ZeroDivisionError: division by zero",
        ),
        (
            SparkLikeError(
                "[UNRESOLVED_COLUMN] A column `pag` cannot be resolved. Did you mean `page`? SQLSTATE: 42703;\n'x"
            ),
            "A column `pag` cannot be resolved. Did you mean `page`?",
        ),
        (SparkLikeError("Python worker failed.\n=== Streaming Query ===\nIdentifier: x"), "Python worker failed"),
        (SparkLikeError(""), "Spark gave no reason"),
        (
            SparkLikeError(
                "Job aborted: org.apache.spark.SparkException: Python worker failed to connect back.\n\tat x"
            ),
            "Spark's Python processes need more than ten seconds to start: this machine is too busy, try again later",
        ),
    ],
)
def test_one_sentence(error: Exception, expected: str) -> None:
    assert sentence(error) == expected


@pytest.mark.parametrize(
    "error",
    [
        SparkLikeError("whatever", "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE"),
        SparkLikeError("[STREAM_FAILED] x: [STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE] y"),
        SparkLikeError("assertion failed: There are [2] sources in the checkpoint offsets and now there are [1]"),
    ],
)
def test_a_checkpoint_of_another_query(error: Exception) -> None:
    assert sentence(error).startswith("the checkpoint was written by another query")
