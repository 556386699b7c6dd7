"""The rules for topic names."""

from collections.abc import Iterable

from ottla.errors import ErrorCode, KafkaError

MAX_NAME_LENGTH = 249
"""Leaves room for `-<partition>` and a suffix in the 255 bytes of a directory name."""

_ALLOWED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def check_topic_name(name: str) -> None:
    problem = name_problem(name)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)


def name_problem(name: str) -> str | None:
    """Why a name is invalid, as one sentence, or None."""
    if not name:
        return "A topic name must not be empty."
    if name in (".", ".."):
        return f"A topic cannot be named {name!r}."
    if len(name) > MAX_NAME_LENGTH:
        return f"A topic name has at most {MAX_NAME_LENGTH} characters, this one has {len(name)}."
    if not _ALLOWED.issuperset(name):
        return f"The topic name {name!r} has characters other than letters, digits, '.', '_' and '-'."
    return None


def check_no_collision(name: str, existing: Iterable[str]) -> None:
    """Metric names have '_' for '.', so two topics that differ only there would share their metrics."""
    if "." not in name and "_" not in name:
        return
    folded = name.replace(".", "_")
    for other in existing:
        if other.replace(".", "_") == folded and other != name:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"The topic {name!r} differs from the topic {other!r} only in '.' and '_'.",
            )
