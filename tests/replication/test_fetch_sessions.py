"""KIP-227: fetch sessions against a simple model."""

import random
from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import ErrorCode
from ottla.model import TopicId
from ottla.replication.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    AnyFetch,
    FetchSession,
    FetchSessions,
    Key,
    Wanted,
)
from ottla.replication.reads import PartitionRead
from tests.manual_clock import ManualClock
from tests.replication.world import expect

BY_ID = TopicId(bytes(range(16)))


def wanted(index: int, offset: int, max_bytes: int = 1000, leader_epoch: int = -1) -> Wanted:
    return index, leader_epoch, offset, -1, -1, max_bytes, bytes(16), 0


def read(index: int, high_watermark: int, log_start: int, records: bytes = b"") -> PartitionRead:
    return PartitionRead(index, 0, high_watermark, high_watermark, log_start, records=records)


class Broker:
    def __init__(self, slots: int = 10) -> None:
        self.clock = ManualClock()
        self.sessions = FetchSessions(self.clock, random.Random(1), slots)

    def fetch(
        self,
        session_id: int = 0,
        epoch: int = INITIAL_EPOCH,
        partitions: Iterable[int] = (),
        forgotten: Iterable[int] = (),
        *,
        offset: int = 0,
        by_topic_id: bool = False,
    ) -> AnyFetch:
        topic = BY_ID if by_topic_id else "clicks"
        named: list[tuple[Key, Wanted]] = [((topic, index), wanted(index, offset)) for index in partitions]
        return self.sessions.begin(session_id, epoch, named, [(topic, index) for index in forgotten], by_topic_id)


def indexes(session: AnyFetch) -> list[int]:
    return [index for (_, index), _ in session.wanted()]


def offsets(session: AnyFetch) -> dict[Key, int]:
    return {key: fetch_offset for key, (_, _, fetch_offset, *_) in session.wanted()}


def test_a_full_fetch_begins_a_session() -> None:
    broker = Broker()
    session = broker.fetch(partitions=[0, 1])
    assert session.id > 0
    assert session.full
    assert indexes(session) == [0, 1]
    assert len(broker.sessions) == 1


def test_an_incremental_fetch_names_only_what_changed() -> None:
    broker = Broker()
    session_id = broker.fetch(partitions=[0, 1, 2], offset=5).id
    session = broker.fetch(session_id, 1, [1, 3], [2], offset=9)
    assert session.id == session_id
    assert not session.full
    assert offsets(session) == {("clicks", 0): 5, ("clicks", 1): 9, ("clicks", 3): 9}
    session = broker.fetch(session_id, 2)
    assert indexes(session) == [0, 1, 3]


def test_every_detail_of_a_partition_can_change() -> None:
    broker = Broker()
    session_id = broker.fetch(partitions=[0]).id
    changed = (("clicks", 0), wanted(0, 7, 123, 4))
    assert list(broker.sessions.begin(session_id, 1, [changed], [], False).wanted()) == [changed]


def test_added_and_forgotten_in_one_request_is_forgotten() -> None:
    broker = Broker()
    session_id = broker.fetch(partitions=[0]).id
    assert indexes(broker.fetch(session_id, 1, [1], [1])) == [0]


def test_a_session_of_another_time_is_not_found() -> None:
    broker = Broker()
    with expect(ErrorCode.FETCH_SESSION_ID_NOT_FOUND):
        broker.fetch(12345, 1)
    with expect(ErrorCode.FETCH_SESSION_ID_NOT_FOUND):
        broker.fetch(0, 1)


def test_a_repeated_or_skipped_epoch_is_refused_and_harms_nothing() -> None:
    broker = Broker()
    session_id = broker.fetch(partitions=[0]).id
    broker.fetch(session_id, 1)
    for wrong in (1, 3, -2):
        with expect(ErrorCode.INVALID_FETCH_SESSION_EPOCH):
            broker.fetch(session_id, wrong, [5])
    assert indexes(broker.fetch(session_id, 2)) == [0]


def test_the_epoch_after_the_largest_is_1() -> None:
    broker = Broker()
    session = broker.fetch(partitions=[0])
    assert isinstance(session, FetchSession)
    session.epoch = 2**31 - 1
    broker.fetch(session.id, 2**31 - 1)
    broker.fetch(session.id, 1)
    assert session.epoch == 2


def test_of_a_partition_that_is_named_twice_the_last_counts() -> None:
    twice: list[tuple[Key, Wanted]] = [(("clicks", 0), wanted(0, offset)) for offset in (3, 4)]
    assert offsets(Broker().sessions.begin(0, FINAL_EPOCH, twice, [], False)) == {("clicks", 0): 4}


def test_the_final_epoch_ends_the_session_and_still_fetches() -> None:
    broker = Broker()
    session_id = broker.fetch(partitions=[0]).id
    last = broker.fetch(session_id, FINAL_EPOCH, [3])
    assert (last.id, last.full, indexes(last)) == (0, True, [3])
    assert len(broker.sessions) == 0
    with expect(ErrorCode.FETCH_SESSION_ID_NOT_FOUND):
        broker.fetch(session_id, 1)


def test_a_full_fetch_of_a_known_session_replaces_it() -> None:
    broker = Broker()
    old = broker.fetch(partitions=[0, 1]).id
    new = broker.fetch(old, INITIAL_EPOCH, [2])
    assert new.id not in (0, old)
    assert indexes(new) == [2]
    assert len(broker.sessions) == 1


def test_an_empty_full_fetch_needs_no_session() -> None:
    broker = Broker()
    assert broker.fetch().id == 0
    assert len(broker.sessions) == 0


def test_a_session_without_partitions_is_over() -> None:
    broker = Broker()
    session_id = broker.fetch(partitions=[0]).id
    assert broker.fetch(session_id, 1, forgotten=[0]).id == 0
    assert len(broker.sessions) == 0


def test_a_client_that_switches_to_topic_ids_begins_anew() -> None:
    """The client was upgraded or downgraded during a session: names and ids cannot be matched."""
    broker = Broker()
    by_name = broker.fetch(partitions=[0]).id
    with expect(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR):
        broker.fetch(by_name, 1, by_topic_id=True)
    by_id = broker.fetch(partitions=[0], by_topic_id=True).id
    with expect(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR):
        broker.fetch(by_id, 1)
    assert indexes(broker.fetch(by_id, 1, by_topic_id=True)) == [0]
    assert indexes(broker.fetch(by_name, 1)) == [0]


# The limit on sessions


def test_without_room_a_fetch_is_served_without_session() -> None:
    broker = Broker(slots=2)
    kept = [broker.fetch(partitions=[n]).id for n in range(2)]
    refused = broker.fetch(partitions=[9])
    assert (refused.id, refused.full, indexes(refused)) == (0, True, [9])
    for session_id in kept:
        broker.fetch(session_id, 1)


def test_a_broker_may_have_no_sessions_at_all() -> None:
    broker = Broker(slots=0)
    broker.clock.advance(1000)
    assert broker.fetch(partitions=[0]).id == 0


def test_the_longest_unused_session_makes_room_after_two_minutes() -> None:
    broker = Broker(slots=2)
    first = broker.fetch(partitions=[0]).id
    second = broker.fetch(partitions=[1]).id
    broker.clock.advance(60)
    broker.fetch(first, 1)
    broker.clock.advance(59)
    assert broker.fetch(partitions=[2]).id == 0, "nobody was idle for long enough"
    broker.clock.advance(2)
    third = broker.fetch(partitions=[2]).id
    assert third > 0
    with expect(ErrorCode.FETCH_SESSION_ID_NOT_FOUND):
        broker.fetch(second, 1)
    broker.fetch(first, 2)
    broker.fetch(third, 1)


def test_a_session_in_use_does_not_make_room_however_old_it_is() -> None:
    broker = Broker(slots=1)
    session_id = broker.fetch(partitions=[0]).id
    for epoch in range(1, 5):
        broker.clock.advance(100)
        assert broker.fetch(partitions=[1]).id == 0
        broker.fetch(session_id, epoch)


def test_a_replaced_session_gives_its_room_to_the_new_one() -> None:
    broker = Broker(slots=1)
    session_id = broker.fetch(partitions=[0]).id
    assert broker.fetch(session_id, INITIAL_EPOCH, [1]).id > 0


# The partitions that a reply must have


def session_of(broker: Broker, *partitions: int) -> FetchSession:
    session = broker.fetch(partitions=partitions)
    assert isinstance(session, FetchSession)
    return session


def test_a_full_reply_names_everything_an_incremental_one_only_news() -> None:
    broker = Broker()
    session, key = session_of(broker, 0), ("clicks", 0)
    assert session.has_news(key, read(0, 10, 0))
    assert session.has_news(key, read(0, 10, 0)), "as long as it is the full reply"
    broker.fetch(session.id, 1)
    assert not session.has_news(key, read(0, 10, 0))
    assert session.has_news(key, read(0, 10, 0, b"records"))
    assert session.has_news(key, read(0, 11, 0))
    assert session.has_news(key, read(0, 11, 3))
    assert not session.has_news(key, read(0, 11, 3))
    assert session.has_news(key, read(0, 11, 3)._replace(error=ErrorCode.OFFSET_OUT_OF_RANGE))
    assert session.has_news(key, read(0, 11, 3)._replace(diverging=(1, 5)))
    assert session.has_news(key, read(0, 11, 3)._replace(preferred_replica=2))


def test_an_added_partition_is_named_once_even_if_it_is_empty() -> None:
    broker = Broker()
    session = session_of(broker, 0)
    broker.fetch(session.id, 1, [1])
    assert session.has_news(("clicks", 1), read(1, 0, 0))
    assert not session.has_news(("clicks", 1), read(1, 0, 0))


def test_a_partition_that_is_forgotten_and_added_again_is_named() -> None:
    broker = Broker()
    session = session_of(broker, 0, 1)
    session.has_news(("clicks", 1), read(1, 0, 0))
    broker.fetch(session.id, 1, forgotten=[1])
    broker.fetch(session.id, 2, [1])
    assert session.has_news(("clicks", 1), read(1, 0, 0))


def test_who_got_records_queues_at_the_end() -> None:
    broker = Broker()
    session = session_of(broker, 0, 1, 2)
    broker.fetch(session.id, 1)
    session.has_news(("clicks", 0), read(0, 10, 0, b"records"))
    assert indexes(session) == [1, 2, 0]
    session.has_news(("clicks", 2), read(2, 10, 0, b"records"))
    assert indexes(session) == [1, 0, 2]


# Against a model


class NaiveClient:
    """The expected state of one client's session, in the simplest form."""

    def __init__(self) -> None:
        self.session_id = 0
        self.epoch = INITIAL_EPOCH
        self.offsets: dict[Key, int] = {}
        self.told: dict[Key, tuple[int, int]] = {}


partition_sets = st.sets(st.integers(0, 4), max_size=5)
steps = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(["next", "next", "next", "next", "restart", "close", "replay", "skip"]),
        partition_sets,
        partition_sets,
        st.integers(0, 100),
        st.dictionaries(st.integers(0, 4), st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=5),
    ),
    max_size=30,
)


def reply(session: AnyFetch, marks: dict[int, tuple[int, int]]) -> dict[Key, tuple[int, int]]:
    """The partitions that a reply must have, for these high watermarks and log starts."""
    told = {}
    for key, _ in session.wanted():
        mark = marks.get(key[1], (0, 0))
        if not isinstance(session, FetchSession) or session.has_news(key, read(key[1], *mark)):
            told[key] = mark
    return told


@settings(max_examples=60, deadline=None)
@given(steps)
def test_clients_that_follow_the_protocol_agree_with_a_naive_model(
    script: list[tuple[int, str, set[int], set[int], int, dict[int, tuple[int, int]]]],
) -> None:
    broker = Broker(slots=3)
    clients = [NaiveClient() for _ in range(3)]
    for who, move, partitions, forgotten, offset, marks in script:
        client = clients[who]
        named: dict[Key, int] = {("clicks", index): offset for index in partitions}
        incremental = client.session_id != 0 and move not in ("restart", "close")
        if incremental and move in ("replay", "skip"):
            wrong = client.epoch + (1 if move == "skip" else -1)
            if wrong > 0:
                with expect(ErrorCode.INVALID_FETCH_SESSION_EPOCH):
                    broker.fetch(client.session_id, wrong, partitions, forgotten, offset=offset)
            continue
        if incremental:
            client.offsets.update(named)
            for index in forgotten:
                client.offsets.pop(("clicks", index), None)
            epoch = client.epoch
        else:
            client.offsets, client.told = named, {}
            epoch = FINAL_EPOCH if move == "close" else INITIAL_EPOCH
        session = broker.fetch(client.session_id, epoch, partitions, forgotten if incremental else (), offset=offset)
        assert offsets(session) == client.offsets
        now = {key: marks.get(key[1], (0, 0)) for key in client.offsets}
        news = {key: mark for key, mark in now.items() if not incremental or client.told.get(key) != mark}
        assert reply(session, marks) == news
        client.told = now
        if epoch == FINAL_EPOCH or not client.offsets:
            assert session.id == 0
            client.session_id, client.epoch = 0, INITIAL_EPOCH
        else:
            assert session.id == client.session_id or (not incremental and session.id != 0)
            client.session_id, client.epoch = session.id, epoch + 1
        assert len(broker.sessions) == sum(client.session_id != 0 for client in clients)
