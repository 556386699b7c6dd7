"""Plans are made without a server; what a server makes of them is in test_zookeeper.py and test_contract.py."""

import pytest

from ottla.store.interface import Check, Create, Delete, Op, Put, Refusal, Set, StoreConflictError
from ottla.store.zookeeper_plan import ANY_VERSION, NO_VERSION, Act, make_plan


def test_what_must_be_read_first() -> None:
    plan = make_plan(
        [Create("/a/b/c"), Put("/p/q", b""), Set("/s", b""), Check("/c"), Delete("/d"), Set("/v", b"", 3)], {}
    )
    assert plan.unknown == {"/a", "/a/b", "/p", "/p/q", "/s", "/c"}


def test_nothing_is_read_below_a_node_that_is_made_or_removed_here() -> None:
    plan = make_plan([Create("/t"), Create("/t/0/state"), Put("/t/1", b""), Delete("/u"), Put("/u/x", b"")], {})
    assert plan.unknown == set()
    assert [step.path for step in plan.steps] == ["/t", "/t/0", "/t/0/state", "/t/1", "/u", "/u", "/u/x"]


def test_a_node_about_which_nothing_is_known_says_nothing_about_those_below() -> None:
    assert make_plan([Put("/a/1", b""), Put("/a/2", b"")], {}).unknown == {"/a", "/a/1", "/a/2"}


def test_every_step_that_rests_on_knowledge_is_conditional() -> None:
    ops: list[Op] = [Put("/old", b"x"), Put("/new", b"y"), Set("/set", b"z"), Check("/check"), Delete("/delete")]
    plan = make_plan(ops, {"/old": 4, "/new": None, "/set": 5, "/check": 6})
    assert [(step.act, step.version) for step in plan.steps] == [
        (Act.SET, 4), (Act.CREATE, ANY_VERSION), (Act.SET, 5), (Act.CHECK, 6), (Act.DELETE, ANY_VERSION),
    ]  # fmt: skip
    assert plan.versions == [5, 0, 6, 6, -1]
    assert plan.conflict(0, Refusal.VERSION) is None
    assert plan.conflict(0, Refusal.MISSING) is None
    assert plan.conflict(1, Refusal.EXISTS) is None
    assert plan.conflict(2, Refusal.VERSION) is None
    assert plan.conflict(3, Refusal.VERSION) is None


def test_what_the_caller_asked_for_is_refused_in_its_name() -> None:
    ops: list[Op] = [Create("/a/b"), Set("/s", b"", 1), Delete("/d", 2), Check("/c"), Set("/m", b"")]
    plan = make_plan(ops, {"/a": None, "/c": 3, "/m": None})
    assert [step.path for step in plan.steps] == ["/a", "/a/b", "/s", "/d", "/c", "/m"]
    assert plan.conflict(0, Refusal.EXISTS) is None
    for step, index, refusal in (
        (0, 0, Refusal.EPHEMERAL_PARENT),
        (1, 0, Refusal.EXISTS),
        (2, 1, Refusal.VERSION),
        (3, 2, Refusal.NOT_EMPTY),
        (4, 3, Refusal.MISSING),
        (5, 4, Refusal.MISSING),
    ):
        conflict = plan.conflict(step, refusal)
        assert isinstance(conflict, StoreConflictError)
        assert (conflict.index, conflict.op, conflict.refusal) == (index, ops[index], refusal)


@pytest.mark.parametrize("version", [-1, NO_VERSION, 2**40])
def test_versions_that_cannot_be_sent(version: int) -> None:
    plan = make_plan([Set("/a", b"", version), Check("/a")], {})
    assert [step.version for step in plan.steps] == [NO_VERSION, NO_VERSION]
