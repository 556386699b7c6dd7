from collections.abc import Iterator

import pytest

from tests.compat.differential.brokers import Pair, running_pair
from tests.compat.differential.world import set_up


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Both brokers, with the same topics, records, groups and transactions."""
    with running_pair(tmp_path_factory.mktemp("differential")) as both:
        for bootstrap in both:
            set_up(bootstrap)
        yield both
