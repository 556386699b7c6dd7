"""Incremental fetch sessions (KIP-227): the broker remembers the partitions, the client sends only changes."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.compat import batches
from tests.compat.conftest import MakeTopic
from tests.compat.wire import Connection, connect
from tests.compat.wire_requests import fetch, fetch_topic, produce_one, topic_id_of

FINAL_EPOCH = -1


def partitions(reply: Any) -> dict[tuple[str, int], Any]:
    return {(topic.topic, p.partition_index): p for topic in reply.responses for p in topic.partitions}


def open_session(connection: Connection, topics: list[dict[str, Any]]) -> int:
    reply = fetch(connection, topics=topics, session_epoch=0)
    assert reply.error_code is ErrorCode.none
    assert reply.session_id != 0
    session_id: int = reply.session_id
    return session_id


def test_a_session_reports_only_what_changed(bootstrap: str, make_topic: MakeTopic) -> None:
    first, second = make_topic(), make_topic()
    with connect(bootstrap) as connection:
        opened = fetch(connection, topics=[fetch_topic(first, 0), fetch_topic(second, 0)], session_epoch=0)
        assert partitions(opened).keys() == {(first, 0), (second, 0)}
        session = opened.session_id
        idle = fetch(connection, session_id=session, session_epoch=1)
        assert (idle.error_code, idle.session_id, idle.responses) == (ErrorCode.none, session, ())
        produce_one(connection, second, batches.pack([b"news"]))
        changed = partitions(fetch(connection, session_id=session, session_epoch=2))
        assert changed.keys() == {(second, 0)}
        assert [batch.record_count for batch in batches.unpack(changed[second, 0].records)] == [1]


def test_a_session_keeps_its_offset_until_told_otherwise(bootstrap: str, topic: str) -> None:
    with connect(bootstrap) as connection:
        produce_one(connection, topic, batches.pack([b"a"]))
        session = open_session(connection, [fetch_topic(topic, 0)])
        again = partitions(fetch(connection, session_id=session, session_epoch=1))
        assert [batch.base_offset for batch in batches.unpack(again[topic, 0].records)] == [0]
        moved = fetch(connection, session_id=session, session_epoch=2, topics=[fetch_topic(topic, 1)])
        assert not any(p.records for p in partitions(moved).values())


def test_forgotten_partitions_are_forgotten(bootstrap: str, make_topic: MakeTopic) -> None:
    kept, dropped = make_topic(), make_topic()
    with connect(bootstrap) as connection:
        session = open_session(connection, [fetch_topic(kept, 0), fetch_topic(dropped, 0)])
        for topic in (kept, dropped):
            produce_one(connection, topic, batches.pack([b"x"]))
        forgotten = [{"topic": dropped, "partitions": [0]}]
        reply = fetch(connection, session_id=session, session_epoch=1, forgotten_topics_data=forgotten)
        assert partitions(reply).keys() == {(kept, 0)}


def test_partitions_can_be_added(bootstrap: str, make_topic: MakeTopic) -> None:
    first, added = make_topic(), make_topic()
    with connect(bootstrap) as connection:
        session = open_session(connection, [fetch_topic(first, 0)])
        reply = fetch(connection, session_id=session, session_epoch=1, topics=[fetch_topic(added, 0)])
        assert partitions(reply).keys() == {(added, 0)}


def test_an_unknown_session_is_refused(bootstrap: str, topic: str) -> None:
    with connect(bootstrap) as connection:
        session = open_session(connection, [fetch_topic(topic, 0)])
        reply = fetch(connection, session_id=session ^ 0x5A5A5A, session_epoch=1)
        assert (reply.error_code, reply.session_id) == (ErrorCode.fetch_session_id_not_found, 0)


@pytest.mark.parametrize("epoch", [2, 17])
def test_a_wrong_epoch_is_refused(bootstrap: str, topic: str, epoch: int) -> None:
    with connect(bootstrap) as connection:
        session = open_session(connection, [fetch_topic(topic, 0)])
        reply = fetch(connection, session_id=session, session_epoch=epoch)
        assert reply.error_code is ErrorCode.invalid_fetch_session_epoch
        assert fetch(connection, session_id=session, session_epoch=1).error_code is ErrorCode.none


def test_the_final_epoch_closes_the_session(bootstrap: str, topic: str) -> None:
    with connect(bootstrap) as connection:
        session = open_session(connection, [fetch_topic(topic, 0)])
        closing = fetch(connection, session_id=session, session_epoch=FINAL_EPOCH, topics=[fetch_topic(topic, 0)])
        assert (closing.error_code, closing.session_id) == (ErrorCode.none, 0)
        after = fetch(connection, session_id=session, session_epoch=1)
        assert after.error_code is ErrorCode.fetch_session_id_not_found


def test_sessions_do_not_share_their_state(bootstrap: str, topic: str) -> None:
    with connect(bootstrap) as one, connect(bootstrap) as other:
        produce_one(one, topic, batches.pack([b"a"]))
        sessions = [open_session(connection, [fetch_topic(topic, 1)]) for connection in (one, other)]
        assert sessions[0] != sessions[1]
        fetch(one, session_id=sessions[0], session_epoch=1, topics=[fetch_topic(topic, 0)])
        assert fetch(other, session_id=sessions[1], session_epoch=1).responses == ()


def test_a_session_wakes_up_for_new_data(bootstrap: str, topic: str) -> None:
    with connect(bootstrap) as reader, connect(bootstrap) as writer:
        session = open_session(reader, [fetch_topic(topic, 0)])
        produce_one(writer, topic, batches.pack([b"a"]))
        reply = fetch(reader, session_id=session, session_epoch=1, wait_ms=10_000)
        assert partitions(reply).keys() == {(topic, 0)}


def test_sessions_by_topic_id(bootstrap: str, topic: str) -> None:
    with connect(bootstrap) as connection:
        topic_id = topic_id_of(connection, topic)
        asked = [
            {"topic_id": topic_id, "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 10_000}]}
        ]
        opened = fetch(connection, 13, topics=asked, session_epoch=0)
        produce_one(connection, topic, batches.pack([b"a"]))
        reply = fetch(connection, 13, session_id=opened.session_id, session_epoch=1)
        assert [answer.topic_id for answer in reply.responses] == [topic_id]
