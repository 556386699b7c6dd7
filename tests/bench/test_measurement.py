import pytest

from bench.case import FULL, QUICK
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
from bench.run import Results, in_turn
from bench.workloads import FAMILIES


def test_a_summary_is_the_median_and_the_distance_of_the_extremes() -> None:
    assert summarize([30.0, 10.0, 20.0]) == Summary(20.0, 1.0, 3)
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
        (at_least(1.5), 1.5, True, "at least 1.5x"),
        (at_least(1.5), 1.49, False, "at least 1.5x"),
        (at_most(1 / 3), 0.33, True, "at most 1/3"),
        (at_most(1 / 8), 0.13, False, "at most 1/8"),
        (at_most(1.5), 1.2, True, "at most 1.5x"),
    ],
)
def test_bars(bar: Bar, ratio: float, met: bool, text: str) -> None:
    assert bar.met_by(ratio) is met
    assert str(bar) == text


def _row(kafka: float | None, ottla: float | None) -> Row:
    metric = Metric("rate", Unit.REQUESTS_PER_SECOND, at_least(2.0))
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


def test_repeats_of_a_measurement_share_a_row() -> None:
    [case] = FAMILIES["start"](QUICK)
    metric = case.metrics[0].name
    values = [(KAFKA, 4.0), (OTTLA, 0.3), (OTTLA, 0.5), (KAFKA, 5.0), (KAFKA, 6.0)]
    results = Results([Measurement(case.family, case.name, metric, broker, value) for broker, value in values])
    [row] = results.rows([case])
    assert row.reference == Summary(5.0, 0.4, 3)
    assert row.ottla is not None
    assert (row.ottla.median, row.ottla.spread) == pytest.approx((0.4, 0.5))


def test_who_goes_first_alternates() -> None:
    assert [in_turn((KAFKA, OTTLA), repeat)[0] for repeat in range(3)] == [KAFKA, OTTLA, KAFKA]


def test_every_family_has_cases_with_names_and_metrics_of_their_own() -> None:
    cases = [case for make in FAMILIES.values() for case in make(FULL)]
    assert len({(case.family, case.name) for case in cases}) == len(cases)
    for case in cases:
        assert case.family in FAMILIES
        assert len({(metric.name, metric.reference) for metric in case.metrics}) == len(case.metrics)
        assert {metric.reference for metric in case.metrics} <= set(case.brokers)
