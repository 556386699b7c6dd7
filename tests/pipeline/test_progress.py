"""What a person learns of a micro-batch."""

import json
from typing import Any

from ottla.pipeline.progress import Batch, QueryState, query_state, read_progress


def progress(**more: Any) -> str:
    """As Spark writes it, shortened."""
    document: dict[str, Any] = {
        "batchId": 3,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "durationMs": {"addBatch": 80, "triggerExecution": 120},
        "eventTime": {"watermark": "2026-01-01T00:00:00.000Z"},
        "stateOperators": [{"numRowsTotal": 10, "memoryUsedBytes": 1000}, {"numRowsTotal": 5, "memoryUsedBytes": 500}],
        "sources": [
            {
                "numInputRows": 7,
                "processedRowsPerSecond": 70.0,
                "endOffset": {"a": {"0": 5, "1": 5}},
                "latestOffset": {"a": {"0": 9, "1": 5}},
            },
            {"numInputRows": 1, "processedRowsPerSecond": "NaN", "endOffset": "-1", "latestOffset": None},
        ],
        "observedMetrics": {"dead-letters": {"dead_letters": 2}},
        **more,
    }
    return json.dumps(document)


def test_a_batch() -> None:
    assert read_progress(progress()) == Batch(
        number=3,
        at="2026-01-01T00:00:00.000Z",
        rows=8,
        rows_per_second=70.0,
        milliseconds=120,
        lag=4,
        state_rows=15,
        state_bytes=1500,
        watermark="2026-01-01T00:00:00.000Z",
        dead_letters=2,
    )


def test_offsets_inside_of_text() -> None:
    source = {"endOffset": '{"a": {"0": 5}}', "latestOffset": '{"a": {"0": 7, "1": 2}}'}
    assert read_progress(progress(sources=[source])).lag == 4


def test_a_look_that_found_nothing_is_no_batch_and_keeps_the_state() -> None:
    state = QueryState("job", "console")
    state.add(read_progress(progress()))
    state.add(read_progress(progress(durationMs={"triggerExecution": 2}, sources=[], stateOperators=[])))
    assert (state.batches, state.rows, state.dead_letters) == (1, 8, 4)
    assert state.last is not None
    assert (state.last.state_rows, state.last.rows_per_second) == (15, 0.0)


def test_a_state_survives_being_written_down() -> None:
    state = QueryState("job", "console")
    state.add(read_progress(progress()))
    assert query_state(json.loads(json.dumps(state.as_json()))) == state
