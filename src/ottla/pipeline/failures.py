"""Everything that stops a pipeline, as one sentence that says what to do."""

import re
from typing import Any


class PipelineError(Exception):
    """Said in a sentence for the person who runs the pipeline."""


_JAVA_FRAME = re.compile(r"^\s*(at |\.\.\. \d+ more|JVM stacktrace)")
_RAISED = re.compile(r"(?:\w+\.)*([A-Z]\w*): (.+)")
"""The last line of a Python traceback: the class that was raised, and what it says."""
_SPEAKING = (
    "BoundError",
    "ConnectionFailed",
    "DataLoss",
    "GaveUp",
    "KafkaError",
    "OptionError",
    "PipelineError",
    "WriteFailed",
)
"""Exceptions of ours whose message is a sentence that needs no name before it."""
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
"""What Spark says of a process of its own that did not start within ten seconds."""


def sentence(error: BaseException) -> str:
    """What a person has to know about an error from Spark, without the stack traces of two languages."""
    if isinstance(error, PipelineError):
        return str(error)
    text = str(error)
    named = any(condition.startswith(_CHECKPOINT_CONDITIONS) for condition in _conditions(error))
    if named or any(phrase in text for phrase in _CHECKPOINT_PHRASES):
        return (
            "the checkpoint was written by another query, whose state or sources differ; "
            "give the pipeline another checkpoint, or delete this one to begin anew"
        )
    if NO_WORKER in text:
        return "Spark's Python processes need more than ten seconds to start: this machine is too busy, try again later"
    said = text.partition("=== Streaming Query ===")[0]
    return _raised_by_python(said) or _first_statement(said)


def _conditions(error: BaseException) -> list[str]:
    """Spark's names for what happened: that of the error, and those of its causes."""
    name: Any = getattr(error, "getCondition", lambda: None)()
    return [str(name or ""), *re.findall(r"\[([A-Z][A-Z0-9_.]{5,})\]", str(error))]


def _raised_by_python(text: str) -> str | None:
    """The innermost Python exception in a text of nested stack traces: the last of the first traceback."""
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
    return _one_line(said if name in _SPEAKING else f"{name}: {said}")


def _first_statement(text: str) -> str:
    """What comes before the first stack frame, without the tags that Spark puts around it."""
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
