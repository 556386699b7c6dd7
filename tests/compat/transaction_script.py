"""Situations in which producers and consumers may find themselves, told to a broker request by request.

Apache Kafka gave the answers in `kafka-4.3.1-transactions.txt`: `python -m tests.compat.transaction_script host:port`
asks a running one again. A paragraph is a situation with topics, groups and transactional ids of its own. A line that
begins with `>` is a request, what stands indented below it is the answer. `p1:0` is the first producer id that appears,
with epoch 0; p9 never appears. `t` and `u` are topics with two partitions, `missing` does not exist. `m1` is the first
member of a group. `v=` names the request's version. After a request that ends a transaction, the next one waits until
the markers are written.
"""

import sys
import time
import uuid
from collections.abc import Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka.admin import AdminClient
from kio.schema.errors import ErrorCode

from tests.compat import batches, topics, transaction_requests
from tests.compat.deadlines import eventually
from tests.compat.transaction_requests import READ_COMMITTED, READ_UNCOMMITTED, Member, Place, Producer
from tests.compat.wire import Connection, connect

ANSWERS = Path(__file__).with_name("kafka-4.3.1-transactions.txt")
NEVER_GIVEN = 2**40
CLOCK = int(time.time() * 1000) - 3_600_000
"""When all records are made that a script sends: an hour ago. Markers are made now. With more time between the two, a
topic would start another segment."""
TIMESTAMPS = {"latest": -1, "earliest": -2, "max-timestamp": -3}


class Paragraph(NamedTuple):
    title: str
    lines: list[str]

    @property
    def requests(self) -> list[str]:
        return [line.removeprefix("> ") for line in self.lines if line.startswith("> ")]


def paragraphs(script: str) -> list[Paragraph]:
    found: list[Paragraph] = []
    for line in script.splitlines():
        if line.startswith((">", "  ")):
            found[-1].lines.append(line)
        elif line:
            found.append(Paragraph(line, []))
    return found


def play(paragraph: Paragraph, connection: Connection, admin: Any) -> list[str]:
    """The paragraph's lines, with the broker's own answers."""
    situation = Situation(connection, admin)
    lines: list[str] = []
    for request in paragraph.requests:
        lines += [f"> {request}", *(f"  {answer}" for answer in situation.ask(Words(request)))]
    return lines


class Words:
    """A request's verb, its names in order, and its options."""

    def __init__(self, request: str) -> None:
        self.verb, *words = request.split()
        self.names = [word for word in words if "=" not in word]
        self.options = dict(word.split("=", 1) for word in words if "=" in word)

    def number(self, option: str, default: int) -> int:
        return int(self.options.get(option, default))

    def version(self, default: int) -> int:
        return self.number("v", default)

    def flag(self, name: str) -> bool:
        return name in self.names

    def isolation(self) -> int:
        return self.number("isolation", READ_COMMITTED if self.flag("committed") else READ_UNCOMMITTED)


class Situation:
    def __init__(self, connection: Connection, admin: Any) -> None:
        self._connection = connection
        self._admin = admin
        self._suffix = f"-{uuid.uuid4().hex[:12]}"
        self._topics: set[str] = set()
        self._producer_ids: list[int] = []
        self._members: list[str] = []

    def ask(self, words: Words) -> list[str]:
        """The lines of the answer. Every verb has a method of its name."""
        answers: list[str] = getattr(self, "_" + words.verb.replace("-", "_"))(words)
        return answers

    def _init(self, words: Words) -> list[str]:
        more = {name: words.flag(word) for word, name in _INIT_FLAGS.items() if words.flag(word)}
        reply = transaction_requests.init(
            self._connection,
            self._transactional_id(words),
            version=words.version(5),
            timeout_ms=words.number("timeout", 60_000),
            expected=self._producer(words.options["as"]) if "as" in words.options else None,
            **more,
        )
        self._settle(words)
        ongoing = getattr(reply, "ongoing_txn_producer_id", -1)
        open_one = [] if ongoing < 0 else ["open", self._show(ongoing, reply.ongoing_txn_producer_epoch)]
        return [self._joined(reply.error_code, self._show(reply.producer_id, reply.producer_epoch), *open_one)]

    def _add(self, words: Words) -> list[str]:
        producer, places = self._producer(words.names[0]), self._places(words.names[1:])
        own = self._name(words)
        if words.version(3) < 4:
            errors = transaction_requests.add_partitions(self._connection, own, producer, places, words.version(3))
        else:
            asked = {own: (producer, places)}
            [errors] = transaction_requests.add_many(
                self._connection, asked, verify_only=words.verb == "verify", version=words.version(5)
            ).values()
        return self._errors(errors)

    def _verify(self, words: Words) -> list[str]:
        words.options.setdefault("v", "5")
        return self._add(words)

    def _add_offsets(self, words: Words) -> list[str]:
        producer, group = self._producer(words.names[0]), words.names[1] + self._suffix
        own = self._name(words)
        error = transaction_requests.add_offsets(self._connection, own, producer, group, words.version(4))
        return [_name_of(error)]

    def _commit(self, words: Words) -> list[str]:
        reply = transaction_requests.end(
            self._connection,
            self._name(words),
            self._producer(words.names[0]),
            committed=words.verb == "commit",
            version=words.version(5),
        )
        self._settle(words)
        if words.version(5) < 5:
            return [_name_of(reply.error_code)]
        return [self._joined(reply.error_code, self._show(reply.producer_id, reply.producer_epoch))]

    _abort = _commit

    def _produce(self, words: Words) -> list[str]:
        records: dict[Place, bytes] = {}
        for name in words.names[1:]:
            where, *flags = name.split("/")
            [place] = self._places([where])
            records[place] = self._batch(words, flags)
        version = words.version(12)
        replies = transaction_requests.produce(
            self._connection, self._transactional_id(words), records, version=version, acks=words.number("acks", -1)
        )
        return [
            f"{self._place(place)} {_name_of(each.error_code)} @{each.base_offset}"
            for place, each in sorted(replies.items())
        ]

    def _batch(self, words: Words, flags: list[str]) -> bytes:
        """`t-0/plain/p2:0` has a batch outside of the transaction, from another producer than the request's first."""
        attributes = 0 if "plain" in flags else batches.TRANSACTIONAL
        if "control" in flags:
            attributes |= batches.CONTROL
        [producer] = [flag for flag in flags if ":" in flag] or [words.names[0]]
        sequence, count = words.number("seq", -1), words.number("count", 1)
        return batch(self._producer(producer), sequence, count, attributes)

    def _fetch(self, words: Words) -> list[str]:
        reply = transaction_requests.fetch(
            self._connection,
            self._first_place(words),
            offset=words.number("from", 0),
            isolation=words.isolation(),
            max_bytes=words.number("max", 1_000_000),
            version=words.version(12),
        )
        found = batches.unpack(reply.records)
        offsets = f"hw={reply.high_watermark} lso={reply.last_stable_offset}"
        aborted = f"aborted={self._aborted(reply.aborted_transactions, found)}"
        return [f"{_name_of(reply.error_code)} {offsets} {aborted}", *(self._line(each) for each in found)]

    def _aborted(self, listed: Sequence[Any] | None, found: list[batches.Batch]) -> str:
        """A broker may also list transactions behind the last record that it sends; how many, depends on its index."""
        if listed is None:
            return "null"
        end = found[-1].last_offset if found else -1
        return (
            ",".join(f"{self._id(it.producer_id)}@{it.first_offset}" for it in listed if it.first_offset <= end)
            or "none"
        )

    def _line(self, batch: batches.Batch) -> str:
        producer = self._show(batch.producer_id, batch.producer_epoch) or "nobody"
        if batch.is_control:
            kind, coordinator_epoch = batch.marker
            return f"{batch.base_offset} {producer} {kind} by={coordinator_epoch}"
        offsets = str(batch.base_offset)
        if batch.record_count > 1:
            offsets += f"..{batch.last_offset}"
        return f"{offsets} {producer} seq={batch.base_sequence}{'' if batch.is_transactional else ' plain'}"

    def _offset(self, words: Words) -> list[str]:
        asked = words.names[1]
        reply = transaction_requests.list_offset(
            self._connection,
            self._first_place(words),
            TIMESTAMPS[asked] if asked in TIMESTAMPS else CLOCK + int(asked),
            isolation=words.isolation(),
            version=words.version(10),
        )
        return [f"{_name_of(reply.error_code)} @{reply.offset} {_time(reply.timestamp)}"]

    def _commit_offsets(self, words: Words) -> list[str]:
        errors = transaction_requests.commit_offsets(
            self._connection,
            self._name(words),
            self._producer(words.names[0]),
            words.names[1] + self._suffix,
            self._offsets(words.names[2:]),
            member=self._member(words) if words.version(5) > 2 else None,
            version=words.version(5),
        )
        return self._errors(errors)

    def _commit_plainly(self, words: Words) -> list[str]:
        group, offsets = words.names[0] + self._suffix, self._offsets(words.names[1:])
        return self._errors(
            transaction_requests.commit_offsets_plainly(self._connection, group, offsets, self._member(words))
        )

    def _committed(self, words: Words) -> list[str]:
        group, [place] = words.names[0] + self._suffix, self._places(words.names[1:2])
        stable, version = words.flag("stable"), words.version(8)
        answer = transaction_requests.committed(self._connection, group, place, stable=stable, version=version)
        offset = getattr(answer, "committed_offset", None)
        metadata = getattr(answer, "metadata", "") or ""
        return [self._joined(answer.error_code, "" if offset is None else f"@{offset}", metadata)]

    def _join(self, words: Words) -> list[str]:
        reply = transaction_requests.join(
            self._connection,
            words.names[0] + self._suffix,
            self._members[int(words.options["as"][1:]) - 1] if "as" in words.options else "",
            words.options.get("instance"),
        )
        if reply.member_id not in self._members:
            self._members.append(reply.member_id)
        return [f"m{self._members.index(reply.member_id) + 1} generation={reply.generation_id}"]

    def _write_markers(self, words: Words) -> list[str]:
        more = {"transaction_version": words.number("protocol", 0)} if words.version(1) > 1 else {}
        errors = transaction_requests.write_markers(
            self._connection,
            self._producer(words.names[0]),
            self._places(words.names[2:]),
            committed={"COMMIT": True, "ABORT": False}[words.names[1]],
            coordinator_epoch=words.number("by", 0),
            version=words.version(1),
            **more,
        )
        return self._errors(errors)

    def _describe(self, words: Words) -> list[str]:
        reply = transaction_requests.describe(self._connection, self._name(words))
        error = ErrorCode(reply.error_code)
        if error is not ErrorCode.none:
            return [_name_of(error)]
        places = sorted(self._place(Place(each.topic, n)) for each in reply.topics for n in each.partitions)
        began = "" if reply.transaction_start_time_ms < 0 else "began"
        producer = self._show(reply.producer_id, reply.producer_epoch)
        state = (reply.transaction_state, str(reply.transaction_timeout_ms), began)
        return [self._joined(error, producer, *state, *places)]

    def _list(self, words: Words) -> list[str]:
        """Of all that are listed, the situation's own."""
        fields: dict[str, Any] = {"state_filters": [s for s in words.options.get("states", "").split(",") if s]}
        if "producer" in words.options:
            fields["producer_id_filters"] = [self._producer(words.options["producer"]).producer_id]
        if "longer" in words.options:
            fields["duration_filter"] = int(words.options["longer"])
        if "pattern" in words.options:
            fields["transactional_id_pattern"] = words.options["pattern"].replace("ID", self._name(words))
        reply = self._connection.call("list_transactions", words.version(2), **fields)
        unknown = [f"?{name}" for name in sorted(reply.unknown_state_filters)]
        found = [
            f"{self._id(each.producer_id)} {each.transaction_state}"
            for each in reply.transaction_states
            if each.transactional_id.endswith(self._suffix)
        ]
        return [self._joined(reply.error_code, *unknown), *sorted(found)]

    def _producers(self, words: Words) -> list[str]:
        reply = transaction_requests.describe_producers(self._connection, self._first_place(words))
        lines = [
            f"{self._show(each.producer_id, each.producer_epoch)} seq={each.last_sequence} "
            f"{_time(each.last_timestamp)} by={each.coordinator_epoch} open={each.current_txn_start_offset}"
            for each in sorted(reply.active_producers, key=lambda each: each.producer_id)
        ]
        return [_name_of(reply.error_code), *lines]

    def _delete_records(self, words: Words) -> list[str]:
        [(place, offset)] = self._offsets(words.names).items()
        partition = {"partition_index": place.partition, "offset": offset}
        fields = {"topics": [{"name": place.topic, "partitions": [partition]}], "timeout": _TEN_SECONDS}
        [answer] = self._connection.call("delete_records", 2, **fields).topics[0].partitions
        return [f"{_name_of(answer.error_code)} @{answer.low_watermark}"]

    def _delete_group(self, words: Words) -> list[str]:
        [answer] = self._connection.call("delete_groups", 2, groups_names=[words.names[0] + self._suffix]).results
        return [_name_of(answer.error_code)]

    def _delete_offset(self, words: Words) -> list[str]:
        group, [place] = words.names[0] + self._suffix, self._places(words.names[1:])
        topic = {"name": place.topic, "partitions": [{"partition_index": place.partition}]}
        reply = self._connection.call("offset_delete", 0, group_id=group, topics=[topic])
        if reply.error_code is not ErrorCode.none:
            return [_name_of(reply.error_code)]
        return self._errors({place: reply.topics[0].partitions[0].error_code})

    def _delete_topic(self, words: Words) -> list[str]:
        name = words.names[0] + self._suffix
        self._admin.delete_topics([name])[name].result(10)
        eventually(lambda: topics.leaders(self._admin, name) == 0)
        return []

    def _time_out(self, words: Words) -> list[str]:
        own = self._name(words)
        eventually(lambda: transaction_requests.describe(self._connection, own).transaction_state != "Ongoing")
        self._settle(words)
        return []

    def _transactional_id(self, words: Words) -> str | None:
        return None if words.options.get("id") == "none" else self._name(words)

    def _name(self, words: Words) -> str:
        given = words.options.get("id", "id")
        return "" if given == "empty" else given + self._suffix

    def _settle(self, words: Words) -> None:
        if words.options.get("id", "id") not in ("none", "empty"):
            transaction_requests.settle(self._connection, self._name(words))

    def _producer(self, text: str) -> Producer:
        if text == "nobody":
            return Producer(batches.NO_PRODUCER, -1)
        name, epoch = text.split(":")
        number = int(name[1:])
        known = number <= len(self._producer_ids)
        return Producer(self._producer_ids[number - 1] if known else NEVER_GIVEN + number, int(epoch))

    def _id(self, producer_id: int) -> str:
        if producer_id not in self._producer_ids:
            self._producer_ids.append(producer_id)
        return f"p{self._producer_ids.index(producer_id) + 1}"

    def _show(self, producer_id: int, epoch: int) -> str:
        return "" if producer_id == batches.NO_PRODUCER else f"{self._id(producer_id)}:{epoch}"

    def _places(self, names: Iterable[str]) -> list[Place]:
        places = []
        for name in names:
            topic, _, partition = name.rpartition("-")
            if topic in ("t", "u") and topic not in self._topics:
                topics.create(self._admin, topic + self._suffix, 2)
                self._topics.add(topic)
            places.append(Place(topic if topic.startswith("__") else topic + self._suffix, int(partition)))
        return places

    def _first_place(self, words: Words) -> Place:
        return self._places(words.names[:1])[0]

    def _place(self, place: Place) -> str:
        """Which partition has the offsets of a group depends on its name, which is new each time."""
        if place.topic.startswith("__"):
            return place.topic
        return f"{place.topic.removesuffix(self._suffix)}-{place.partition}"

    def _offsets(self, names: Iterable[str]) -> dict[Place, int]:
        pairs = [name.split("@") for name in names]
        return {self._places([place])[0]: int(offset) for place, offset in pairs}

    def _member(self, words: Words) -> Member:
        name = words.options.get("member", "")
        if name in [f"m{n + 1}" for n in range(len(self._members))]:
            name = self._members[int(name[1:]) - 1]
        return Member(words.number("generation", -1), name, words.options.get("instance"))

    def _errors(self, errors: dict[Place, ErrorCode]) -> list[str]:
        return [f"{self._place(place)} {_name_of(error)}" for place, error in sorted(errors.items())]

    def _joined(self, error: ErrorCode, *rest: str) -> str:
        return " ".join([_name_of(error), *(each for each in rest if each)])


_TEN_SECONDS = timedelta(seconds=10)
_INIT_FLAGS = {"two-phase": "enable2_pc", "keep": "keep_prepared_txn"}


def _name_of(error: ErrorCode) -> str:
    return error.name.upper()


def _time(timestamp: int) -> str:
    if timestamp == -1:
        return "never"
    return f"+{timestamp - CLOCK}" if timestamp - CLOCK < 1_000_000 else "now"


def batch(producer: Producer, sequence: int, count: int = 1, attributes: int = batches.TRANSACTIONAL) -> bytes:
    return batches.pack(
        [b"x"] * count,
        timestamps=[CLOCK] * count,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        sequence=sequence,
        attributes=attributes,
    )


def rewrite(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    with connect(bootstrap) as connection:
        transaction_requests.prepare(connection)
        told = [
            "\n".join([paragraph.title, "", *play(paragraph, connection, admin)])
            for paragraph in paragraphs(ANSWERS.read_text())
        ]
    ANSWERS.write_text("\n\n".join(told) + "\n")


if __name__ == "__main__":
    rewrite(sys.argv[1])
