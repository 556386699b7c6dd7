"""The rules of one replica's role: the high watermark and `min.insync.replicas`."""

import pytest

from ottla.model import LeaderEpoch
from ottla.replication.followers import Followers
from ottla.replication.leadership import Leadership


def leader(in_sync: tuple[int, ...] = (2, 3), high_watermark: int = 5, log_end: int = 10) -> Leadership:
    leadership = Leadership(high_watermark, log_end)
    leadership.begin_epoch_as_leader(LeaderEpoch(1), Followers((2, 3), in_sync, 0.0), log_end)
    return leadership


@pytest.mark.parametrize(
    "offset", [pytest.param(4, id="back"), pytest.param(11, id="past the end"), pytest.param(-1, id="before the start")]
)
def test_the_high_watermark_stays_between_itself_and_the_end(offset: int) -> None:
    leadership = leader()
    with pytest.raises(AssertionError, match="cannot move from 5"):
        leadership.commit_to(offset, 10)
    assert leadership.high_watermark == 5
    for offset in (5, 7, 10):
        leadership.commit_to(offset, 10)
        assert leadership.high_watermark == offset


def test_only_a_follower_lowers_its_high_watermark() -> None:
    leadership = leader()
    with pytest.raises(AssertionError):
        leadership.reset_high_watermark(3)
    leadership.begin_epoch_as_follower(LeaderEpoch(2))
    leadership.reset_high_watermark(3)
    assert leadership.high_watermark == 3


@pytest.mark.parametrize(
    ("in_sync", "wanted", "effective", "under"),
    [
        ((2, 3), 1, 1, False),
        ((2, 3), 3, 3, False),
        ((2, 3), 9, 3, False),
        ((2,), 2, 2, False),
        ((2,), 3, 3, True),
        ((2,), 9, 3, True),
        ((), 1, 1, False),
        ((), 2, 2, True),
    ],
)
def test_min_isr(in_sync: tuple[int, ...], wanted: int, effective: int, under: bool) -> None:
    leadership = leader(in_sync)
    assert leadership.in_sync_count == 1 + len(in_sync)
    assert leadership.effective_min_isr(wanted) == effective
    assert leadership.is_under_min_isr(wanted) is under


def test_the_only_replica_is_always_enough() -> None:
    leadership = Leadership(0, 0)
    leadership.begin_epoch_as_leader(LeaderEpoch(0), None, 0)
    assert (leadership.effective_min_isr(3), leadership.is_under_min_isr(3)) == (1, False)
    assert leadership.replicated_offset(7) == 7


def test_a_new_leader_knows_what_is_committed_when_its_followers_have_all_that_it_found() -> None:
    leadership = leader(high_watermark=5, log_end=10)
    assert (leadership.knows_committed, leadership.needed_end) == (False, 10)
    leadership.commit_to(10, 12)
    assert (leadership.knows_committed, leadership.needed_end) == (True, 10)
    leadership.commit_to(12, 12)
    assert leadership.needed_end == 12
