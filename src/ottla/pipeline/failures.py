"""Convert the errors that stop a pipeline into one sentence for the user."""

import re
from typing import Any


class PipelineError(Exception):
    """An error with a message for the user who runs the pipeline."""


_JAVA_FRAME = re.compile(r"^\s*(at |\.\.\. \d+ more|JVM stacktrace)")
_RAISED = re.compile(r"(?:\w+\.)*([A-Z]\w*): (.+)")
"""The last line of a Python traceback: exception class and message."""
_PLAIN_MESSAGES = (
    "BoundError",
    "ConnectionFailed",
    "DataLoss",
    "GaveUp",
    "KafkaError",
    "OptionError",
    "PipelineError",
    "WriteFailed",
)
"""Exceptions of Ottla whose message is a complete sentence and needs no class name before it."""
_CONDITION = re.compile(r"^\[([A-Z0-9_.]+)\]\s*")
_SQL_STATE = re.compile(r"\s*SQLSTATE: \w+.*$", re.DOTALL)

_CHECKPOINT_CONDITIONS = (
    "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_SCHEMA",
    "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
    "STATE_STORE_OPERATOR",
)
_CHECKPOINT_PHRASES = (
    "There are [",
    "checkpoint offset log",
    "Provided schema doesn't match to the schema for existing",
)
NO_WORKER = "Python worker failed to connect back"
"""Spark's message for a Python process that did not start within ten seconds."""


def sentence(error: BaseException) -> str:
    """The essential message of an error from Spark, without the Java and Python stack traces."""
    if isinstance(error, PipelineError):
        return str(error)
    text = str(error)
    named = any(condition.startswith(_CHECKPOINT_CONDITIONS) for condition in _conditions(error))
    if named or any(phrase in text for phrase in _CHECKPOINT_PHRASES):
        return (
            "the checkpoint was written by another query, whose state or sources differ; "
            "give the pipeline another checkpoint, or delete this one to start over"
        )
    if NO_WORKER in text:
        return "Spark's Python processes need more than ten seconds to start: this machine is too busy, try again later"
    said = text.partition("=== Streaming Query ===")[0]
    return _raised_by_python(said) or _first_statement(said)


def _conditions(error: BaseException) -> list[str]:
    """Spark's error conditions: those of the error and of its causes."""
    name: Any = getattr(error, "getCondition", lambda: None)()
    return [str(name or ""), *re.findall(r"\[([A-Z][A-Z0-9_.]{5,})\]", str(error))]


def _raised_by_python(text: str) -> str | None:
    """The innermost Python exception in nested stack traces: the last exception of the first traceback."""
    found = None
    inside = False
    for line in text.splitlines():
        if "Traceback (most recent call last)" in line:
            inside = True
        match = _RAISED.fullmatch(line.rstrip())
        if inside and match:
            found = match
        if found and _JAVA_FRAME.match(line):
            break
    if found is None:
        return None
    name, said = found.groups()
    return _one_line(said if name in _PLAIN_MESSAGES else f"{name}: {said}")


def _first_statement(text: str) -> str:
    """The text before the first stack frame, without Spark's tags."""
    lines = []
    for line in text.strip().splitlines():
        if _JAVA_FRAME.match(line) or not line.strip():
            break
        lines.append(line.strip())
    statement = _SQL_STATE.sub("", " ".join(lines))
    statement = _CONDITION.sub("", statement)
    return _one_line(statement) or "Spark gave no reason"


def _one_line(text: str) -> str:
    return " ".join(text.split()).rstrip(".;: ")
