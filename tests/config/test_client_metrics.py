import pytest

from ottla.config.client_metrics import client_metrics_values, validate_client_metrics_overrides
from ottla.config.definition import ConfigError, UnknownKeyError


def test_values() -> None:
    assert client_metrics_values({}) == {"interval.ms": 300_000, "match": (), "metrics": ()}
    assert client_metrics_values({"metrics": "a, b"})["metrics"] == ("a", "b")


def test_valid() -> None:
    validate_client_metrics_overrides({"interval.ms": "100", "metrics": "*"})
    validate_client_metrics_overrides({"match": "client_source_port=1,client_id=a.*"})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("interval.ms", "99", "at least 100"),
        ("match", "foo=bar", "write selector=pattern"),
        ("match", "client_id", "write selector=pattern"),
        ("match", "client_id=a=b", "write selector=pattern"),
        ("match", "client_id=a(", "not a regular expression"),
        ("match", "client_id=a{99999999999999}", "not a regular expression"),
        ("match", "client_id=" + "(" * 2000, "not a regular expression"),
    ],
)
def test_refused(name: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validate_client_metrics_overrides({name: value})
    assert message in str(caught.value)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(UnknownKeyError):
        validate_client_metrics_overrides({"nope": "1"})
