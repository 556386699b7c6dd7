"""Values that the command line passes to a pipeline file: `--set topic=clicks`."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

_given: dict[str, str] = {}
_asked: set[str] = set()


def parameter(name: str, default: str) -> str:
    """The value of `--set name=value`, or the default. Works only while the file is loaded."""
    _asked.add(name)
    return _given.get(name, default)


@contextmanager
def parameters(values: Mapping[str, str]) -> Iterator[set[str]]:
    """Set the parameters while a file is loaded. At the end, the set contains the names that the file did not use."""
    _given.clear()
    _given.update(values)
    _asked.clear()
    unknown: set[str] = set(values)
    try:
        yield unknown
        unknown -= _asked
    finally:
        _given.clear()
