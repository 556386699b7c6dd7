"""The benchmark's Spark, and the loads that only it has."""

import shutil
from typing import TYPE_CHECKING

import pytest

from bench import librdkafka, wire
from bench.librdkafka import Load
from bench.spark import Job, Spark, SparkError
from tests.spark import topics

if TYPE_CHECKING:
    from ottla.testing.embedded import EmbeddedBroker


def test_events_have_keys_and_values_of_the_size_that_was_asked_for(ottla_broker: "EmbeddedBroker") -> None:
    bootstrap = ottla_broker.bootstrap_servers
    topic = topics.make_topic(bootstrap, 2)
    librdkafka.events(Load("events", bootstrap, topic, 501, 100, 2))
    assert wire.end_offsets(bootstrap, topic, 2) == [251, 250]
    rows = topics.consume(bootstrap, topic, 2)
    assert {len(row.key or b"") for row in rows} == {10}
    assert {len(row.value or b"") for row in rows} == {100}
    assert len({row.value for row in rows}) == 501


def test_the_time_through_a_pipeline_is_measured_record_by_record(
    ottla_broker: "EmbeddedBroker", monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shortest pipeline: what comes out is what went in."""
    monkeypatch.setattr(librdkafka, "_WARMUP_SECONDS", 0.02)
    bootstrap = ottla_broker.bootstrap_servers
    topic = topics.make_topic(bootstrap)
    load = Load("pipeline", bootstrap, topic, 20, 100, acks="1", output=topic, rate=200)
    result = librdkafka.pipeline(load)
    assert wire.end_offsets(bootstrap, topic) == [24]
    assert result.seconds >= 23 / 200
    assert 0 < result.p50_ms <= result.p99_ms < result.seconds * 1000


@pytest.mark.spark
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
def test_a_session_of_its_own_does_one_job_after_the_other(ottla_broker: "EmbeddedBroker") -> None:
    bootstrap = ottla_broker.bootstrap_servers
    topic, output = topics.make_topic(bootstrap, 2), topics.make_topic(bootstrap)
    topics.fill(bootstrap, topic, [(index % 2, b"%d" % index) for index in range(300)])
    server = {"kafka.bootstrap.servers": bootstrap}
    options = {**server, "subscribe": topic, "startingOffsets": "earliest"}
    spark = Spark(None)
    try:
        before = spark.cpu_seconds()
        for kind in ("noop", "parquet", "parquet"):
            assert spark.run(Job(kind, "ottla", options)).rows == 300
        spark.run(Job("start", "ottla", options, {**server, "topic": output}))
        assert spark.run(Job("stop")).rows == 300
        assert wire.end_offsets(bootstrap, output) == [300]
        with pytest.raises(SparkError, match="no option"):
            spark.run(Job("noop", "ottla", {**options, "unknown": "1"}))
        assert spark.cpu_seconds() > before
    finally:
        spark.close()
    with pytest.raises(SparkError, match="ended"):
        spark.run(Job("noop", "ottla", options))
