"""Golden traces: a script of commands, each followed by the effects it must have.

A line that begins with `>` is a command: a verb, names, and `key=value` options; what stands between it and the next
one is what the core did. `python -m tests.groups.script` writes the present effects into every trace, to be read
before they are believed.
"""

from collections.abc import Callable
from pathlib import Path

from ottla.coordinator_core.effects import CancelTimer, SetTimer
from ottla.errors import ErrorCode
from ottla.groups.commands import LeavingMember, PartitionCommit, Protocol
from ottla.groups.effects import Outcome, TimerKey
from ottla.groups.group import subscribed_topics
from ottla.groups.parameters import GroupParameters
from ottla.groups.records import GroupRemoved, GroupStored, OffsetCommitted, OffsetRemoved, Record
from ottla.groups.results import (
    CommitResult,
    DeleteGroupsResult,
    DeleteOffsetsResult,
    JoinResult,
    LeaveResult,
    Result,
    SyncResult,
)
from ottla.model import Producer, TopicId, TopicPartition
from tests.groups.shard import Shard, subscription

TRACES = Path(__file__).with_name("traces")


def run(script: str) -> str:
    """The script with the effects that its commands have today."""
    player = Player()
    lines: list[str] = []
    for line in script.splitlines():
        if line.startswith(">"):
            lines += [line, *player.play(line[1:])]
        elif not line.startswith("  "):
            lines.append(line)
    return "\n".join(lines) + "\n"


class Player:
    def __init__(self) -> None:
        self.shard = Shard()
        self.shard.trace = self._trace
        self.lines: list[str] = []

    def play(self, command: str) -> list[str]:
        self.lines = []
        words = command.split()
        names = [word for word in words[1:] if "=" not in word]
        options = dict(word.split("=", 1) for word in words[1:] if "=" in word)
        verbs: dict[str, Callable[[list[str], dict[str, str]], None]] = {
            "set": self._set,
            "join": self._join,
            "sync": self._sync,
            "heartbeat": self._heartbeat,
            "leave": self._leave,
            "commit": self._commit,
            "commit-txn": self._commit_txn,
            "end-txn": self._end_txn,
            "fetch": self._fetch,
            "delete-offsets": self._delete_offsets,
            "delete-group": self._delete_group,
            "delete-topic": self._delete_topic,
            "expire": self._expire,
            "wait": self._wait,
            "compact": self._compact,
            "crash": self._crash,
            "unload": self._unload,
            "fail-next-append": self._fail_next_append,
            "describe": self._describe,
            "list": self._list,
        }
        verbs[words[0]](names, options)
        return ["  " + line for line in self.lines]

    def _set(self, _: list[str], options: dict[str, str]) -> None:
        values = {key: milliseconds(value) for key, value in options.items()}
        self.shard.parameters = GroupParameters(**values)
        self.shard.crash()

    def _join(self, names: list[str], options: dict[str, str]) -> None:
        offered = options.get("protocols", "range:clicks")
        self.shard.join(
            names[0],
            member_id=options.get("id", ""),
            instance_id=options.get("instance"),
            protocol_type=options.get("type", "consumer"),
            offered=tuple(parse_protocol(text) for text in offered.split(",") if text),
            session_timeout_ms=milliseconds(options.get("session", "10s")),
            rebalance_timeout_ms=milliseconds(options.get("rebalance", "60s")),
            version=int(options.get("v", "9")),
        )

    def _sync(self, names: list[str], options: dict[str, str]) -> None:
        pairs = [pair.split(":") for pair in options.get("assign", "").split(",") if pair]
        self.shard.sync(
            names[0],
            int(options["gen"]),
            {member: assignment.encode() for member, assignment in pairs},
            instance_id=options.get("instance"),
            protocol_name=options.get("protocol"),
        )

    def _heartbeat(self, names: list[str], options: dict[str, str]) -> None:
        error = self.shard.heartbeat(names[0], int(options["gen"]), instance_id=options.get("instance"))
        self.lines.append(error.name)

    def _leave(self, names: list[str], options: dict[str, str]) -> None:
        members = [LeavingMember(name, options.get("instance")) for name in names]
        if not names:
            members = [LeavingMember("", instance) for instance in options["instance"].split(",")]
        self.shard.leave(*members)

    def _commit(self, names: list[str], options: dict[str, str]) -> None:
        self.shard.commit(
            *[parse_commit(name, options.get("metadata")) for name in names],
            member_id=options.get("id", ""),
            instance_id=options.get("instance"),
            generation_id=int(options.get("gen", "-1")),
            retention_time_ms=milliseconds(options["retention"]) if "retention" in options else -1,
            version=int(options.get("v", "9")),
        )

    def _commit_txn(self, names: list[str], options: dict[str, str]) -> None:
        self.shard.commit_txn(
            Producer(int(options["producer"]), int(options.get("epoch", "0"))),
            *[parse_commit(name, options.get("metadata")) for name in names],
            member_id=options.get("id", ""),
            instance_id=options.get("instance"),
            generation_id=int(options.get("gen", "-1")),
            group_id=options.get("group", "g"),
        )

    def _end_txn(self, names: list[str], options: dict[str, str]) -> None:
        self.shard.end_txn(int(options["producer"]), committed={"commit": True, "abort": False}[names[0]])

    def _fetch(self, names: list[str], options: dict[str, str]) -> None:
        """As OffsetFetch does it: `stable` asks for an error instead of an offset that may be about to change."""
        core, group_id = self.shard.core, options.get("group", "g")
        stable, wanted = "stable" in names, [parse_partition(name) for name in names if name != "stable"]
        if not wanted:
            wanted = [TopicPartition(it.topic, it.partition) for it in core.fetch_all_offsets(group_id)]
        for partition in wanted:
            committed = core.fetch_offset(group_id, *partition)
            if stable and core.is_unstable(group_id, *partition):
                self.lines.append(f"{partition} {ErrorCode.UNSTABLE_OFFSET_COMMIT.name}")
            else:
                self.lines.append(f"{partition} none" if committed is None else show_record(committed))

    def _delete_offsets(self, names: list[str], _: dict[str, str]) -> None:
        self.shard.delete_offsets(*[parse_partition(name) for name in names])

    def _delete_group(self, names: list[str], _: dict[str, str]) -> None:
        self.shard.delete_groups(*names)

    def _delete_topic(self, names: list[str], _: dict[str, str]) -> None:
        deleted = dict.fromkeys(names, TopicId(b"t" * 16))
        self.shard.perform(self.shard.core.on_topics_deleted(deleted, self.shard.core.group_ids()))

    def _expire(self, _: list[str], __: dict[str, str]) -> None:
        self.shard.expire_offsets()

    def _wait(self, names: list[str], _: dict[str, str]) -> None:
        self.shard.wait(milliseconds(names[0]))

    def _compact(self, _: list[str], __: dict[str, str]) -> None:
        before = len(self.shard.log)
        self.shard.compact()
        self.lines.append(f"{before - len(self.shard.log)} records less")

    def _crash(self, _: list[str], __: dict[str, str]) -> None:
        self.shard.crash()

    def _unload(self, _: list[str], __: dict[str, str]) -> None:
        self.shard.perform(self.shard.core.unload(self.shard.now))

    def _fail_next_append(self, names: list[str], _: dict[str, str]) -> None:
        self.shard.next_append_error = ErrorCode[names[0]]

    def _describe(self, _: list[str], __: dict[str, str]) -> None:
        group = self.shard.core.describe("g")
        error = "" if group.error is ErrorCode.NONE else f"{group.error.name} "
        self.lines.append(f"{error}{group.state} type={group.protocol_type} protocol={group.protocol_name}")
        for member in group.members:
            instance = f" instance={member.group_instance_id}" if member.group_instance_id else ""
            topics = f" topics={','.join(subscribed_topics(member.metadata))}" if member.metadata else ""
            self.lines.append(f"{member.member_id}{instance}{topics} assignment={member.assignment.decode()}")

    def _list(self, _: list[str], options: dict[str, str]) -> None:
        groups = self.shard.core.list_groups(split(options, "states"), split(options, "types"))
        self.lines += [f"{group.group_id} {group.state} {group.type} {group.protocol_type}" for group in groups]

    def _trace(self, outcome: Outcome) -> None:
        producer = outcome.producer
        owner = "" if producer is None else f" (transaction of {producer.producer_id}/{producer.producer_epoch})"
        self.lines += [f"write {show_record(record)}{owner}" for record in outcome.records]
        self.lines += [f"reply {reply.token}: {show_result(reply.result)}" for reply in outcome.replies]
        self.lines += [show_timer(change, self.shard.steady_ms) for change in outcome.timers]


def split(options: dict[str, str], key: str) -> list[str]:
    return [word for word in options.get(key, "").split(",") if word]


def milliseconds(text: str) -> int:
    for unit, factor in (("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)):
        if text.endswith(unit):
            return int(text.removesuffix(unit)) * factor
    return int(text)


def parse_protocol(text: str) -> Protocol:
    name, _, topics = text.partition(":")
    return Protocol(name, subscription(*topics.split("+")))


def parse_partition(text: str) -> TopicPartition:
    topic, partition = text.rsplit("-", 1)
    return TopicPartition(topic, int(partition))


def parse_commit(text: str, metadata: str | None) -> PartitionCommit:
    where, offset = text.split("@")
    return PartitionCommit(*parse_partition(where), int(offset), 0, metadata)


def show_timer(change: SetTimer[TimerKey] | CancelTimer[TimerKey], steady_ms: int) -> str:
    if isinstance(change, SetTimer):
        return f"timer {show_key(change.key)} in {(change.at_ms - steady_ms) / 1000:g}s"
    return f"timer {show_key(change.key)} off"


def show_key(key: TimerKey) -> str:
    return f"{key.kind.value} {key.member_id}".strip()


def show_record(record: Record) -> str:
    match record:
        case GroupStored():
            members = ", ".join(f"{member.member_id}={member.assignment.decode()}" for member in record.members)
            return (
                f"group {record.group}: generation {record.generation} {record.protocol_type or '-'}"
                f"/{record.protocol or '-'} leader {record.leader or '-'} [{members}]"
            )
        case GroupRemoved():
            return f"group {record.group}: gone"
        case OffsetCommitted():
            metadata = f" {record.metadata!r}" if record.metadata else ""
            return f"offset {record.group} {record.topic}-{record.partition}: {record.offset}{metadata}"
        case OffsetRemoved():
            return f"offset {record.group} {record.topic}-{record.partition}: gone"


def show_result(result: Result) -> str:
    match result:
        case JoinResult():
            return show_join(result)
        case SyncResult():
            assigned = f" {result.protocol_name} assignment={result.assignment.decode()}"
            return f"sync {result.error.name}" + (assigned if result.error is ErrorCode.NONE else "")
        case LeaveResult():
            left = ", ".join(f"{who.member_id or who.group_instance_id} {who.error.name}" for who in result.members)
            return f"leave {result.error.name} {left}".strip()
        case CommitResult():
            return "commit " + " ".join(error.name for error in result.errors)
        case DeleteOffsetsResult():
            return " ".join(["delete offsets", result.error.name, *(error.name for error in result.errors)])
        case DeleteGroupsResult():
            return "delete groups " + " ".join(error.name for error in result.errors)


def show_join(result: JoinResult) -> str:
    if result.error is not ErrorCode.NONE:
        return f"join {result.error.name} {result.member_id}".strip()
    skip = " skip-assignment" if result.skip_assignment else ""
    members = ", ".join(f"{who.member_id}[{','.join(subscribed_topics(who.metadata))}]" for who in result.members)
    leading = f" members {members}" if members else ""
    return (
        f"join NONE {result.member_id} generation {result.generation_id} {result.protocol_type}"
        f"/{result.protocol_name} leader {result.leader}{skip}{leading}"
    )


if __name__ == "__main__":
    for path in sorted(TRACES.glob("*.txt")):
        path.write_text(run(path.read_text()))
