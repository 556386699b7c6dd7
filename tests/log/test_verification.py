import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.log.verification import VerificationGuard, Verifications
from tests.log.world import batch


def start(verifications: Verifications, sequence: int = 0, epoch: int = 0, *, bump: bool = False) -> VerificationGuard:
    return verifications.start(7, sequence, epoch, supports_epoch_bump=bump, now_ms=1000)


def sequence_is_refused(verifications: Verifications, sequence: int, *, has_batches: bool = False) -> bool:
    item = batch(producer_id=7, producer_epoch=0, base_sequence=sequence, transactional=True)
    try:
        verifications.check_sequence(item.header, has_batches=has_batches)
    except KafkaError as error:
        return error.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    return False


def test_a_guard_is_good_until_its_transaction_ends() -> None:
    verifications = Verifications()
    guard = start(verifications)
    verifications.check_guard(7, guard)
    verifications.end(7)
    renewed = start(verifications)
    for wrong in (guard, None):
        with pytest.raises(KafkaError) as error:
            verifications.check_guard(7, wrong)
        assert error.value.code == ErrorCode.INVALID_TXN_STATE
    verifications.check_guard(7, renewed)


def test_a_guard_is_for_one_producer() -> None:
    verifications = Verifications()
    guard = start(verifications)
    with pytest.raises(KafkaError):
        verifications.check_guard(8, guard)


def test_batches_that_wait_for_the_same_answer_share_a_guard() -> None:
    verifications = Verifications()
    assert start(verifications, 3) is start(verifications, 0)


def test_the_lowest_sequence_number_comes_first() -> None:
    verifications = Verifications()
    start(verifications, 5)
    start(verifications, 3)
    start(verifications, 8)
    assert not sequence_is_refused(verifications, 3)
    assert sequence_is_refused(verifications, 5)
    start(verifications, 6, epoch=1)
    assert not sequence_is_refused(verifications, 6)
    assert sequence_is_refused(verifications, 7)
    verifications.end(7)
    assert not sequence_is_refused(verifications, 7)


def test_a_new_epoch_begins_with_sequence_number_zero() -> None:
    verifications = Verifications()
    start(verifications, 4, bump=True)
    assert sequence_is_refused(verifications, 4)
    assert not sequence_is_refused(verifications, 4, has_batches=True)
    assert not sequence_is_refused(verifications, 0)


def test_what_is_never_answered_expires() -> None:
    verifications = Verifications()
    guard = start(verifications)
    verifications.expire(999)
    verifications.check_guard(7, guard)
    verifications.expire(1000)
    with pytest.raises(KafkaError):
        verifications.check_guard(7, guard)
