"""Starting a query on a machine that is busy."""

from typing import Any

import pytest

from ottla.pipeline.queries import settled

TOO_SLOW = RuntimeError("[STREAM_FAILED] Query terminated: Python worker failed to connect back. SQLSTATE: XXKST")


class Query:
    """What is asked of a query: it has its sources after a few looks, or it has failed."""

    def __init__(self, error: Exception | None) -> None:
        self._error = error
        self._looks = 0

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        return self._error is None

    @property
    def status(self) -> dict[str, str]:
        self._looks += 1
        return {"message": "Initializing sources" if self._looks < 3 else "Processing new data"}

    def exception(self) -> Exception | None:
        return self._error


@pytest.mark.parametrize(
    ("errors", "starts"),
    [([None], 1), ([TOO_SLOW, TOO_SLOW, None], 3), ([RuntimeError("no such column"), None], 1)],
)
def test_only_a_worker_that_came_too_late_is_started_again(errors: list[Exception | None], starts: int) -> None:
    queries: list[Any] = [Query(error) for error in errors]
    started: list[Any] = []

    def start() -> Any:
        started.append(queries[len(started)])
        return started[-1]

    assert settled(start) is queries[starts - 1]
    assert len(started) == starts
    if errors[0] is None:
        assert started[0]._looks == 3, "it was waited for"
