"""Planning faults: names, limits, counting. `test_fault_handlers.py` shows what clients see of them."""

import threading
import time

import pytest

from ottla.testing.faults import Faults


@pytest.mark.parametrize(
    "api, error, message",
    [
        ("endtxn", "NOT_COORDINATOR", "there is no API 'endtxn'; did you mean EndTxn"),
        ("Fetsch", "NOT_COORDINATOR", "there is no API 'Fetsch'; did you mean Fetch"),
        ("zzz", "NOT_COORDINATOR", "there is no API 'zzz'$"),
        ("EndTxn", "COORDINATOR_NOT_AVAILIBLE", "there is no error 'COORDINATOR_NOT_AVAILIBLE'; did you mean COORD"),
        ("EndTxn", "not_coordinator", "did you mean NOT_COORDINATOR"),
        ("EndTxn", "NONE", "NONE is not an error"),
    ],
)
def test_unknown_names_are_rejected_with_close_matches(api: str, error: str, message: str) -> None:
    faults = Faults()
    with pytest.raises(ValueError, match=message):
        faults.fail(api, error)
    assert faults.active == ()


def test_arguments_without_a_meaning_are_rejected() -> None:
    faults = Faults()
    with pytest.raises(ValueError, match="EndTxn requests name no topics"):
        faults.fail("EndTxn", "NOT_COORDINATOR", topic="clicks")
    with pytest.raises(ValueError, match="times is 0"):
        faults.drop_connection("Produce", times=0)
    with pytest.raises(ValueError, match="negative"):
        faults.delay("Produce", -1)


def test_a_fault_is_used_up() -> None:
    faults = Faults()
    fault = faults.fail("EndTxn", "NOT_COORDINATOR", times=2)
    assert [fault.fire() for _ in range(3)] == [True, True, False]
    assert (fault.fired, fault.is_active, faults.active) == (2, False, ())
    assert repr(fault) == "<EndTxn: fail with NOT_COORDINATOR; fired 2 of 2 times>"


def test_a_fault_without_a_limit_lasts_until_it_is_removed() -> None:
    faults = Faults()
    fault = faults.delay("Fetch", 0.5, times=None, topic="clicks")
    assert all(fault.fire() for _ in range(100))
    fault.remove()
    assert not fault.fire()
    assert fault.fired == 100
    assert repr(fault) == "<Fetch for topic 'clicks': delay by 0.5 s; fired 100 times>"


def test_clear_removes_every_fault() -> None:
    faults = Faults()
    planned = [faults.drop_connection("Produce"), faults.fail("Fetch", "NOT_LEADER_OR_FOLLOWER")]
    faults.clear()
    assert [fault.is_active for fault in planned] == [False, False]
    assert faults.active == ()


def test_waiting_for_a_fault() -> None:
    fault = Faults().drop_connection("Produce", times=2)
    with pytest.raises(TimeoutError, match=r"drop the connection before processing; fired 0 of 2 times"):
        fault.wait(timeout=0.01)
    threads = [threading.Timer(0.01, fault.fire) for _ in range(2)]
    for thread in threads:
        thread.start()
    began = time.monotonic()
    fault.wait(timeout=60)
    assert fault.fired == 2
    assert time.monotonic() - began < 30


def test_threads_do_not_use_a_fault_twice() -> None:
    faults = Faults()
    fault = faults.fail("EndTxn", "NOT_COORDINATOR", times=1000)
    fired: list[bool] = []

    def fire() -> None:
        fired.extend([fault.fire() for _ in range(400)])

    threads = [threading.Thread(target=fire) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        faults.fail("Fetch", "NOT_COORDINATOR")
    for thread in threads:
        thread.join()
    assert (sum(fired), fault.fired, len(faults.active)) == (1000, 1000, 200)
