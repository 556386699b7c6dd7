from pathlib import Path

import pytest

from bench.case import FULL
from bench.machine import Machine
from bench.measurement import (
    KAFKA,
    OTTLA,
    Bar,
    Measurement,
    Metric,
    Row,
    Summary,
    Unit,
    at_least,
    at_most,
    percentile,
    summarize,
)
from bench.results import Results, load
from bench.run import expected_seconds, in_turn
from bench.workloads import FAMILIES


def test_a_summary_is_the_median_and_the_distance_of_the_extremes() -> None:
    assert summarize([30.0, 10.0, 20.0]) == Summary(20.0, 0.5, 3)
    assert summarize([0.0]) == Summary(0.0, 0.0, 1)
    with pytest.raises(ValueError, match="no repeats"):
        summarize([])


def test_percentiles_by_rank() -> None:
    assert percentile(list(range(100)), 0.5) == 50
    assert percentile(list(range(100)), 0.99) == 99
    assert percentile([7], 0.99) == 7
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)


@pytest.mark.parametrize(
    ("bar", "ratio", "met", "text"),
    [
        (at_least(1.5, "rate"), 1.5, True, "at least 1.5x"),
        (at_least(1.5, "rate"), 1.49, False, "at least 1.5x"),
        (at_most(1 / 3, "cost"), 0.33, True, "at most 1/3"),
        (at_most(1 / 8, "cost"), 0.13, False, "at most 1/8"),
        (at_most(1.5, "cost"), 1.2, True, "at most 1.5x"),
    ],
)
def test_bars(bar: Bar, ratio: float, met: bool, text: str) -> None:
    assert bar.met_by(ratio) is met
    assert str(bar) == text


def _row(kafka: float | None, ottla: float | None) -> Row:
    metric = Metric("rate", Unit.REQUESTS_PER_SECOND, at_least(2.0, "requests/s"))
    values = {KAFKA: kafka, OTTLA: ottla}
    return Row("requests", "small", metric, {name: summarize([v]) for name, v in values.items() if v is not None})


def test_a_ratio_is_ottla_to_its_reference() -> None:
    assert _row(10, 30).ratio == 3
    assert _row(10, 30).met is True
    assert _row(10, 15).met is False


@pytest.mark.parametrize("row", [_row(None, 1), _row(1, None), _row(0, 1)])
def test_what_cannot_be_compared_is_not_judged(row: Row) -> None:
    assert row.ratio is None
    assert row.met is None


def _results(values: list[tuple[str, float]]) -> Results:
    machine = Machine("a processor", 2, 16.0, "Linux 6.1", "3.11.4", "17.0.1", "4.3.1", "0.1.0", "2.8.0", "2.8.0")
    results = Results(machine, ["start"], repeats=3)
    [case] = results.cases
    metric = case.metrics[0].name
    results.measurements += [Measurement(case.family, case.name, metric, broker, value) for broker, value in values]
    return results


def test_repeats_of_a_measurement_share_a_row() -> None:
    row, _ = _results([(KAFKA, 4.0), (OTTLA, 0.3), (OTTLA, 0.5), (KAFKA, 5.0), (KAFKA, 6.0)]).rows
    assert row.reference == Summary(5.0, 0.2, 3)
    assert row.ottla is not None
    assert (row.ottla.median, row.ottla.spread) == pytest.approx((0.4, 0.25))
    assert row.target == 5.0 / 8


def test_what_was_not_measured_has_a_row_too() -> None:
    assert [row.met for row in _results([]).rows] == [None, None]


def test_results_survive_in_a_file(tmp_path: Path) -> None:
    results = _results([(KAFKA, 4.0), (OTTLA, 0.3)])
    results.failures.append("start: Ottla: it did not")
    results.save(tmp_path / "new" / "start.json")
    assert load(tmp_path / "new" / "start.json") == results


def test_who_goes_first_alternates() -> None:
    assert [in_turn((KAFKA, OTTLA), repeat)[0] for repeat in range(3)] == [KAFKA, OTTLA, KAFKA]


def test_every_family_has_cases_with_names_and_metrics_of_their_own() -> None:
    cases = [case for make in FAMILIES.values() for case in make(FULL)]
    assert len({(case.family, case.name) for case in cases}) == len(cases)
    for case in cases:
        assert case.family in FAMILIES
        assert len({(metric.name, metric.reference) for metric in case.metrics}) == len(case.metrics)
        assert {metric.reference for metric in case.metrics} <= set(case.brokers)


def test_a_whole_run_is_expected_to_take_less_than_an_hour() -> None:
    cases = [case for make in FAMILIES.values() for case in make(FULL)]
    assert 20 * 60 < expected_seconds(cases, 3) < 60 * 60


def test_spark_is_expected_to_take_some_minutes_of_its_own() -> None:
    assert 3 * 60 < expected_seconds(FAMILIES["spark"](FULL), 3) < 10 * 60


def test_every_bar_has_a_text_of_its_own() -> None:
    metrics = [m for make in FAMILIES.values() for case in make(FULL) for m in case.metrics]
    bars = {metric.bar for metric in metrics if metric.bar is not None}
    assert len({bar.what for bar in bars}) == len(bars)
