"""What Kafka's tools print, as they print it."""

from pathlib import Path

import pytest

from bench.kafka import ToolError, parse_consumer, parse_end_to_end, parse_producer, server_properties

PRODUCED = """\
Warmup first 50000 records. Steady state results will print after the complete test summary.
200000 records sent, 48792.388387 records/sec (4.65 MB/sec), 1169.59 ms avg latency, 1547.00 ms max latency, \
1189 ms 50th, 1329 ms 95th, 1360 ms 99th, 1408 ms 99.9th.
150000 steady state records sent, 59194.948698 records/sec (5.65 MB/sec), 1220.79 ms avg latency, 1413.00 ms max \
latency, 1234 ms 50th, 1334 ms 95th, 1365 ms 99th, 1408 ms 99.9th.
"""
HEADER = (
    "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, "
    "fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec\n"
)
CONSUMED = (
    "2026-11-15 23:17:29:430, 2026-11-15 23:17:33:146, 19.0735, 5.1328, 200000, 53821.3132, 2248, 1468, 12.9928, "
    "136239.7820\n"
)
LATENCIES = """\
0\t232.085496
1000\t1.863867
Avg latency: 4.3069 ms
Percentiles: 50th = 2, 99th = 24, 99.9th = 63
"""


def test_the_producers_steady_state_is_its_last_summary() -> None:
    result = parse_producer(PRODUCED)
    assert (result.records, result.records_per_second) == (150_000, 59194.948698)
    assert (result.average_latency_ms, result.p99_latency_ms) == (1220.79, 1365)


def test_a_producer_without_warm_up_has_one_summary() -> None:
    assert parse_producer("".join(PRODUCED.splitlines(keepends=True)[1:2])).records == 200_000


@pytest.mark.parametrize("output", ["", "org.apache.kafka.common.errors.TimeoutException: no\n" + PRODUCED])
def test_a_producer_that_failed_has_no_result(output: str) -> None:
    with pytest.raises(ToolError):
        parse_producer(output)


def test_the_consumers_rates_leave_the_rebalance_out() -> None:
    result = parse_consumer(HEADER + CONSUMED)
    assert (result.records, result.megabytes_per_second, result.records_per_second) == (200_000, 12.9928, 136239.782)


def test_a_warning_before_the_consumers_result_is_skipped() -> None:
    warning = "WARNING: Exiting before consuming the expected number of records: timeout (10000 ms) exceeded.\n"
    assert parse_consumer(HEADER + warning + CONSUMED).records == 200_000


@pytest.mark.parametrize("output", ["", HEADER, CONSUMED + CONSUMED])
def test_a_consumer_that_failed_has_no_result(output: str) -> None:
    with pytest.raises(ToolError):
        parse_consumer(output)


def test_end_to_end_latency() -> None:
    result = parse_end_to_end(LATENCIES)
    assert (result.average_ms, result.p50_ms, result.p99_ms) == (4.3069, 2, 24)
    with pytest.raises(ToolError):
        parse_end_to_end("0\t232.085496\n")


def test_settings_of_a_run_go_over_those_of_one_node() -> None:
    text = server_properties(Path("data"), 1, 2, {"log.dirs": "elsewhere", "num.partitions": "3"})
    lines = text.splitlines()
    assert "log.dirs=elsewhere" in lines
    assert "log.dirs=data" not in lines
    assert "num.partitions=3" in lines
    assert "listeners=PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2" in lines
