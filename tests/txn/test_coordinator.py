import subprocess
import sys

import pytest

from ottla.core.effects import response_error
from ottla.errors import ErrorCode
from ottla.model import Producer, TopicPartition
from ottla.txn.commands import InitProducerId
from ottla.txn.coordinator import MAX_PORTION
from ottla.txn.effects import TimerKey, TimerKind
from ottla.txn.records import TransactionRemoved, TransactionStored
from ottla.txn.results import EndTxnResult, InitProducerIdResult, for_older_client
from ottla.txn.state import COMPLETE_COMMIT, ONGOING, PREPARE_ABORT
from tests.txn.shell import Shell

T0 = TopicPartition("t", 0)
FIRST = Producer(1000, 0)


def test_a_command_waits_until_the_records_of_the_last_one_are_settled() -> None:
    shell = Shell()
    outcome = shell.core.init_producer_id(1, InitProducerId("a", 1_000), shell.now)
    with pytest.raises(RuntimeError, match="neither written nor given up"):
        shell.core.init_producer_id(2, InitProducerId("b", 1_000), shell.now)
    shell.core.written(outcome)
    with pytest.raises(RuntimeError, match="not the records of the last command"):
        shell.core.written(outcome)
    with pytest.raises(RuntimeError, match="not the records of the last command"):
        shell.core.append_failed(outcome, ErrorCode.NOT_LEADER_OR_FOLLOWER, shell.now)
    shell.init("b")


def test_nothing_changes_before_it_is_written() -> None:
    shell = Shell()
    outcome = shell.core.init_producer_id(1, InitProducerId("a", 1_000), shell.now)
    assert not shell.core.transactions
    shell.core.written(outcome)
    assert shell.core.transactions["a"].producer == FIRST


def test_ids_do_not_touch_each_other() -> None:
    shell = Shell()
    shell.init("a")
    shell.init("b")
    shell.add("a", FIRST, [T0])
    shell.add("b", Producer(1001, 0), [T0])
    token = shell.end("a", FIRST, committed=True)
    shell.write_markers()
    assert shell.replies[token] == EndTxnResult(ErrorCode.NONE, *FIRST)
    assert shell.core.transactions["a"].state is COMPLETE_COMMIT
    assert shell.core.transactions["b"].state is ONGOING


def test_timers_that_fire_for_no_reason_do_no_harm() -> None:
    shell = Shell()
    for kind in TimerKind:
        assert not shell.core.timer_fired(TimerKey(kind, "nobody"), shell.now).records
    shell.init("a")
    shell.add("a", FIRST, [T0])
    assert not shell.core.timer_fired(TimerKey(TimerKind.MARKERS, "a"), shell.now).records
    shell.end("a", FIRST, committed=True)
    for kind in TimerKind:
        outcome = shell.core.timer_fired(TimerKey(kind, "a"), shell.now)
        assert not outcome.records
        assert not outcome.markers


def test_a_coordinator_whose_clock_is_slow_waits_no_longer_than_the_timeout() -> None:
    """Who coordinated before wrote down when the transaction began, by a clock that was an hour ahead."""
    shell = Shell()
    shell.init("a")
    shell.add("a", FIRST, [T0])
    shell.wall_start_ms -= 3_600_000
    shell.crash()
    due = shell.timers[TimerKey(TimerKind.TIMEOUT, "a")]
    assert due == shell.steady_ms + shell.core.transactions["a"].stored.transaction_timeout_ms + 1
    shell.steady_ms = due
    [aborted] = shell.core.timer_fired(TimerKey(TimerKind.TIMEOUT, "a"), shell.now).records
    assert isinstance(aborted, TransactionStored)
    assert aborted.state is PREPARE_ABORT


def test_a_marker_of_an_earlier_coordinator_does_not_count() -> None:
    shell = Shell()
    shell.init("a")
    shell.add("a", FIRST, [T0])
    shell.end("a", FIRST, committed=True)
    [(earlier, _)] = shell.pending
    shell.crash()
    [(marker, _)] = shell.pending
    assert not shell.core.markers_written(earlier, {T0: ErrorCode.NONE}, shell.now).records
    assert shell.core.transactions["a"].unmarked == {T0}
    shell.report(marker, {T0: ErrorCode.NONE})
    assert shell.core.transactions["a"].state is COMPLETE_COMMIT


def test_expiry_comes_in_portions() -> None:
    shell = Shell()
    for number in range(MAX_PORTION + 5):
        shell.init(str(number))
    shell.wait(shell.parameters.transactional_id_expiration_ms)
    sizes = []
    while removed := shell.perform(shell.core.expire(shell.now)).records:
        assert all(isinstance(record, TransactionRemoved) for record in removed)
        sizes.append(len(removed))
    assert sizes == [MAX_PORTION, 5]
    assert not shell.core.transactions


def test_a_forgotten_id_starts_with_another_producer_id() -> None:
    shell = Shell()
    shell.init("a")
    shell.wait(shell.parameters.transactional_id_expiration_ms)
    shell.perform(shell.core.expire(shell.now))
    token = shell.init("a", expected=FIRST)
    assert shell.replies[token] == InitProducerIdResult(ErrorCode.NONE, 1001, 0)


def test_errors_for_older_clients() -> None:
    assert for_older_client(ErrorCode.PRODUCER_FENCED) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert for_older_client(ErrorCode.INVALID_TXN_STATE) is ErrorCode.INVALID_TXN_STATE


def test_append_errors_make_a_producer_look_for_its_coordinator() -> None:
    assert response_error(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert response_error(ErrorCode.NOT_LEADER_OR_FOLLOWER) is ErrorCode.NOT_COORDINATOR
    assert response_error(ErrorCode.RECORD_LIST_TOO_LARGE) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert response_error(ErrorCode.INVALID_RECORD) is ErrorCode.INVALID_RECORD


def test_the_core_imports_neither_groups_nor_what_stands_above() -> None:
    script = "import sys, ottla.txn.coordinator; print(*(name for name in sys.modules if name.startswith('ottla.')))"
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert {name.split(".")[1] for name in output.split()} == {"core", "errors", "model", "txn", "wire"}
