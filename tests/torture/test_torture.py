"""The short run. `make torture` is the long one."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.compat.processes import BrokerProcess
from tests.torture.brokers import ottla
from tests.torture.plan import Plan
from tests.torture.run import Outcome, Run
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


def run(plan: Plan, broker: BrokerProcess, directory: Path) -> Outcome:
    return Run(plan, broker.bootstrap_servers, broker, directory, print).run()


def test_copiers_that_are_killed_copy_every_record_exactly_once(broker: BrokerProcess, tmp_path: Path) -> None:
    plan = replace(QUICK, seed=20, seconds=7, copiers=3, partitions=4, fault_every=1)
    outcome = run(plan, broker, tmp_path)
    assert outcome.findings == []
    assert set(outcome.faults) == set(Kind)
    assert outcome.committed == outcome.produced > 1000
    assert outcome.uncommitted > outcome.committed, "no record was ever aborted: nothing was proved"
    assert outcome.transactions["abort: at random after its offsets"] > 0


def test_offsets_beside_the_transaction_are_found_out(broker: BrokerProcess, tmp_path: Path) -> None:
    """The same run has to fail when the copiers make the mistake that transactions are there to prevent."""
    plan = replace(QUICK, seed=21, seconds=2, copiers=1, partitions=2, abort_share=0.5, offsets_outside=True)
    findings = run(plan, broker, tmp_path).findings
    assert findings
    assert all(" missing: " in finding for finding in findings), findings
