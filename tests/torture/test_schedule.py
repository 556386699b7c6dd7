from dataclasses import replace

from tests.torture.plan import Plan
from tests.torture.schedule import Kind, draw

PLAN = Plan(seed=4, seconds=60, copiers=3)


def test_a_seed_gives_its_schedule_again_and_another_seed_another() -> None:
    assert draw(PLAN, broker=True) == draw(PLAN, broker=True)
    assert draw(PLAN, broker=True) != draw(replace(PLAN, seed=5), broker=True)


def test_a_short_run_meets_every_kind_of_fault() -> None:
    faults = draw(replace(PLAN, seconds=8, fault_every=1), broker=True)
    assert {fault.kind for fault in faults} == set(Kind)
    assert [fault.at for fault in faults] == sorted(fault.at for fault in faults)
    assert faults[-1].at < 8


def test_a_broker_that_is_not_ours_is_left_alone() -> None:
    assert Kind.BROKER not in {fault.kind for fault in draw(PLAN, broker=False)}


def test_a_pause_is_longer_than_a_session() -> None:
    pauses = [fault for fault in draw(PLAN, broker=True) if fault.kind is Kind.PAUSE]
    assert pauses
    assert all(fault.seconds > PLAN.session_timeout_ms / 1000 for fault in pauses)


def test_kafkas_own_copier_is_met_too() -> None:
    faults = draw(replace(PLAN, seconds=600, kafka_copiers=1), broker=True)
    assert {fault.slot for fault in faults} == {0, 1, 2, 3}
