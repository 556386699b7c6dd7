import subprocess
import sys

import pytest

from ottla.coordinator_core.command_gate import CommandOrderError
from ottla.coordinator_core.effects import MAX_PORTION, response_error
from ottla.errors import ErrorCode
from ottla.model import Producer, TopicPartition
from ottla.txn.commands import InitProducerId
from ottla.txn.effects import TimerKey, TimerKind
from ottla.txn.records import TransactionRemoved, TransactionStored
from ottla.txn.results import EndTxnResult, InitProducerIdResult, for_older_client
from ottla.txn.state import COMPLETE_COMMIT, ONGOING, PREPARE_ABORT
from tests.txn.shard import Shard

T0 = TopicPartition("t", 0)
FIRST = Producer(1000, 0)


def test_a_command_between_a_decision_and_its_append_fails_the_core() -> None:
    shard = Shard()
    outcome = shard.core.init_producer_id(1, InitProducerId("a", 1_000), shard.now)
    with pytest.raises(CommandOrderError):
        shard.core.init_producer_id(2, InitProducerId("b", 1_000), shard.now)
    with pytest.raises(CommandOrderError, match="in state 'failed'"):
        shard.core.written(outcome)


def test_records_are_settled_once() -> None:
    shard = Shard()
    outcome = shard.core.init_producer_id(1, InitProducerId("a", 1_000), shard.now)
    shard.core.written(outcome)
    with pytest.raises(CommandOrderError):
        shard.core.append_failed(outcome, ErrorCode.NOT_LEADER_OR_FOLLOWER, shard.now)


def test_nothing_changes_before_it_is_written() -> None:
    shard = Shard()
    outcome = shard.core.init_producer_id(1, InitProducerId("a", 1_000), shard.now)
    assert not shard.core.transactions
    shard.core.written(outcome)
    assert shard.core.transactions["a"].producer == FIRST


def test_ids_do_not_touch_each_other() -> None:
    shard = Shard()
    shard.init("a")
    shard.init("b")
    shard.add("a", FIRST, [T0])
    shard.add("b", Producer(1001, 0), [T0])
    token = shard.end("a", FIRST, committed=True)
    shard.write_markers()
    assert shard.replies[token] == EndTxnResult(ErrorCode.NONE, *FIRST)
    assert shard.core.transactions["a"].state is COMPLETE_COMMIT
    assert shard.core.transactions["b"].state is ONGOING


def test_timers_that_fire_for_no_reason_do_no_harm() -> None:
    shard = Shard()
    for kind in TimerKind:
        assert not shard.core.timer_fired(TimerKey(kind, "nobody"), shard.now).records
    shard.init("a")
    shard.add("a", FIRST, [T0])
    assert not shard.core.timer_fired(TimerKey(TimerKind.MARKERS, "a"), shard.now).records
    shard.end("a", FIRST, committed=True)
    for kind in TimerKind:
        outcome = shard.core.timer_fired(TimerKey(kind, "a"), shard.now)
        assert not outcome.records
        assert not outcome.markers


def test_a_coordinator_whose_clock_is_slow_waits_no_longer_than_the_timeout() -> None:
    """Who coordinated before wrote down when the transaction began, by a clock that was an hour ahead."""
    shard = Shard()
    shard.init("a")
    shard.add("a", FIRST, [T0])
    shard.wall_start_ms -= 3_600_000
    shard.crash()
    due = shard.timers[TimerKey(TimerKind.TIMEOUT, "a")]
    assert due == shard.steady_ms + shard.core.transactions["a"].stored.transaction_timeout_ms + 1
    shard.steady_ms = due
    [aborted] = shard.core.timer_fired(TimerKey(TimerKind.TIMEOUT, "a"), shard.now).records
    assert isinstance(aborted, TransactionStored)
    assert aborted.state is PREPARE_ABORT


def test_a_marker_of_an_earlier_coordinator_does_not_count() -> None:
    shard = Shard()
    shard.init("a")
    shard.add("a", FIRST, [T0])
    shard.end("a", FIRST, committed=True)
    [(earlier, _)] = shard.pending
    shard.crash()
    [(marker, _)] = shard.pending
    assert not shard.core.markers_written(earlier, {T0: ErrorCode.NONE}, shard.now).records
    assert shard.core.transactions["a"].unmarked == {T0}
    shard.report(marker, {T0: ErrorCode.NONE})
    assert shard.core.transactions["a"].state is COMPLETE_COMMIT


def test_expiry_comes_in_portions() -> None:
    shard = Shard()
    for number in range(MAX_PORTION + 5):
        shard.init(str(number))
    shard.wait(shard.parameters.transactional_id_expiration_ms)
    sizes = []
    while removed := shard.perform(shard.core.expire(shard.now, list(shard.core.transactions))).records:
        assert all(isinstance(record, TransactionRemoved) for record in removed)
        sizes.append(len(removed))
    assert sizes == [MAX_PORTION, 5]
    assert not shard.core.transactions


def test_all_ids_are_looked_at_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.txn.core._IDS_IN_PORTION", 2)
    shard = Shard()
    for number in range(5):
        shard.init(str(number))
    assert list(shard.core.portions()) == [["0", "1"], ["2", "3"], ["4"]]
    shard.wait(shard.parameters.transactional_id_expiration_ms)
    assert len(shard.perform(shard.core.expire(shard.now, ["0", "1", "unknown"])).records) == 2
    assert list(shard.core.portions()) == [["2", "3"], ["4"]]


def test_a_forgotten_id_starts_with_another_producer_id() -> None:
    shard = Shard()
    shard.init("a")
    shard.wait(shard.parameters.transactional_id_expiration_ms)
    shard.perform(shard.core.expire(shard.now, list(shard.core.transactions)))
    token = shard.init("a", expected=FIRST)
    assert shard.replies[token] == InitProducerIdResult(ErrorCode.NONE, 1001, 0)


def test_errors_for_older_clients() -> None:
    assert for_older_client(ErrorCode.PRODUCER_FENCED) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert for_older_client(ErrorCode.INVALID_TXN_STATE) is ErrorCode.INVALID_TXN_STATE


def test_append_errors_make_a_producer_look_for_its_coordinator() -> None:
    assert response_error(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert response_error(ErrorCode.NOT_LEADER_OR_FOLLOWER) is ErrorCode.NOT_COORDINATOR
    assert response_error(ErrorCode.RECORD_LIST_TOO_LARGE) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert response_error(ErrorCode.INVALID_RECORD) is ErrorCode.INVALID_RECORD


def test_the_core_imports_neither_groups_nor_what_stands_above() -> None:
    script = "import sys, ottla.txn.core; print(*(name for name in sys.modules if name.startswith('ottla.')))"
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert {name.split(".")[1] for name in output.split()} == {"coordinator_core", "errors", "model", "txn", "wire"}
