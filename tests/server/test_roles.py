from typing import Any

import pytest

from ottla.cluster.image import ClusterImage
from ottla.config.broker import BrokerConfig
from ottla.server.roles import Roles

ORDER = ["replicas", "fetchers", "groups", "transactions", "controller", "rebalance"]


class Part:
    """A part of a broker that records the images it gets."""

    def __init__(self, name: str, calls: list[str], broken: bool) -> None:
        self._name = name
        self._calls = calls
        self._broken = broken

    def apply(self, image: ClusterImage, config: BrokerConfig) -> None:
        self._calls.append(self._name)
        if self._broken:
            raise RuntimeError(f"{self._name} failed")


def applied(broken: str = "", *, registered: bool = True) -> list[str]:
    calls: list[str] = []
    parts: dict[str, Any] = {name: Part(name, calls, name == broken) for name in ORDER}
    Roles(**parts, registered=registered).apply(ClusterImage(revision=7), BrokerConfig())
    return calls


def test_the_order() -> None:
    assert applied() == ORDER


def test_before_the_broker_is_registered_it_neither_fetches_nor_controls() -> None:
    assert applied(registered=False) == ["replicas", "groups", "transactions"]


@pytest.mark.parametrize("broken", ORDER)
def test_a_part_that_fails_does_not_keep_the_image_from_the_others(
    broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert applied(broken) == ORDER
    # Not the text: tests with Spark in the same process change its form.
    [record] = caplog.records
    assert "cannot apply revision 7 of the cluster image" in record.getMessage()
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == f"{broken} failed"
