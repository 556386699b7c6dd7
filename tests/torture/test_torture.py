"""The short run. `make torture` is the long one."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.compat.processes import BrokerProcess
from tests.torture.brokers import ottla
from tests.torture.plan import Plan
from tests.torture.run import Run
from tests.torture.schedule import Kind

pytestmark = pytest.mark.slow

QUICK = Plan(seed=0, seconds=0, rate=300, session_timeout_ms=1500, transaction_timeout_ms=2500)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = ottla(tmp_path)
    process.start()
    yield process
    process.kill()
    print(process.log())


def test_copiers_that_are_killed_copy_every_record_exactly_once(broker: BrokerProcess, tmp_path: Path) -> None:
    plan = replace(QUICK, seed=20, seconds=6, copiers=3, partitions=4, fault_every=0.8)
    outcome = Run(plan, broker.bootstrap_servers, broker, tmp_path, print).run()
    assert outcome.findings == []
    assert set(outcome.faults) == set(Kind)
    assert outcome.committed == outcome.produced > 1000
    assert outcome.uncommitted > outcome.committed, "no record was ever aborted: nothing was proved"
    assert outcome.transactions["abort: at random after its offsets"] > 0


def test_offsets_beside_the_transaction_are_found_out(broker: BrokerProcess, tmp_path: Path) -> None:
    """The same run must fail if the copiers make the mistake that transactions prevent."""
    plan = replace(QUICK, seed=21, seconds=2, copiers=1, partitions=2, abort_share=0.5, offsets_outside=True)
    findings = Run(plan, broker.bootstrap_servers, None, tmp_path, print).run().findings
    assert findings
    assert all(" missing: " in finding for finding in findings), findings
