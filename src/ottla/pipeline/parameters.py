"""Values that the command line hands to a pipeline file: `--set topic=clicks`."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

_given: dict[str, str] = {}
_asked: set[str] = set()


def parameter(name: str, default: str) -> str:
    """The value given with `--set name=value` when this file is read, or the default."""
    _asked.add(name)
    return _given.get(name, default)


@contextmanager
def parameters(values: Mapping[str, str]) -> Iterator[set[str]]:
    """While a file is read. What is left in the set at the end are names the file did not ask for."""
    _given.clear()
    _given.update(values)
    _asked.clear()
    unknown: set[str] = set(values)
    try:
        yield unknown
        unknown -= _asked
    finally:
        _given.clear()
