import pytest

from ottla.config.keys import BROKER_KEYS
from ottla.config.synonyms import FALLBACKS, base_name, broker_synonyms


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("num.partitions", "num.partitions"),
        ("listener.name.plaintext.max.connections", "max.connections"),
        ("listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config", "sasl.jaas.config"),
        ("listener.name.sasl_ssl.sasl.jaas.config", "sasl.jaas.config"),
        ("listener.name.odd", "listener.name.odd"),
    ],
)
def test_the_key_behind_a_listeners_own(name: str, base: str) -> None:
    assert base_name(name) == base


def test_synonyms_are_kafkas() -> None:
    assert broker_synonyms("log.retention.hours") == (
        "log.retention.ms",
        "log.retention.minutes",
        "log.retention.hours",
    )
    assert broker_synonyms("log.roll.ms") == ("log.roll.ms", "log.roll.hours")
    assert broker_synonyms("log.roll.jitter.hours") == ("log.roll.jitter.ms", "log.roll.jitter.hours")
    assert broker_synonyms("log.flush.interval.ms") == ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
    assert broker_synonyms("log.flush.scheduler.interval.ms") == ("log.flush.scheduler.interval.ms",)
    assert broker_synonyms("listener.name.a.max.connections") == ("listener.name.a.max.connections", "max.connections")
    assert broker_synonyms("num.partitions") == ("num.partitions",)


def test_every_fallback_is_a_key_and_begins_with_itself() -> None:
    for name, sources in FALLBACKS.items():
        assert sources[0] == (name, 1)
        assert {source for source, _ in sources} <= set(BROKER_KEYS)
