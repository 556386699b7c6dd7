"""Members of a consumer group: they join, process records, commit, die, return and leave."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ottla.client.failures import ClientError, check
from ottla.client.fetch import Fetcher, FetchSettings
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.records.header import iter_headers
from ottla.records.reader import read_records
from ottla.wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.api.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from ottla.wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from sim.clients import NAMED_COMMIT, ONE_GROUP_FETCH, PASSING, SimClient
from sim.group_checks import Seat
from sim.inspection import log_end
from sim.plan import TOPIC

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sim.cluster import Cluster
    from sim.history import History

GROUP = "workers"
_SESSION_MS = 1500
_REBALANCE_MS = 2000
_PROTOCOL_TYPE = "sim"
_MEAN_LIFE = 5.0
_MOST_RECORDS = 8

_REMOVED_FROM_GROUP = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID}
_EXPECTED = PASSING | _REMOVED_FROM_GROUP | {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.MEMBER_ID_REQUIRED}


class Work(NamedTuple):
    """Records read from a partition, by offset, and the next offset to read."""

    partition: TopicPartition
    values: dict[int, bytes]
    next_offset: int


@dataclass
class Life:
    """The in-memory state of a member, which is lost when it dies."""

    member_id: str = ""
    coordinator: int | None = None
    seat: Seat | None = None
    last_generation: int = -1
    is_certain: bool = True
    """Whether the member received every response: a repeated response may come from a replaced coordinator."""
    positions: dict[int, int] = field(default_factory=dict)


class Member(SimClient):
    """Dies at random moments and starts again as a new member.

    A member also starts again if the result of a commit is unknown: the old request might still be on its way and be
    applied after the member's next request in the same generation.
    """

    expected: frozenset[ErrorCode] | set[ErrorCode] = _EXPECTED

    def __init__(self, cluster: Cluster, history: History, name: str) -> None:
        super().__init__(cluster, history, name)
        self.life = Life()

    @abstractmethod
    async def handle(self, works: Sequence[Work]) -> bool:
        """Process the records and commit. Returns whether the commit counts. Raises if the result is unknown."""

    async def work(self) -> None:
        while True:
            life = self.loop.create_task(self._live())
            await asyncio.wait([life], timeout=None if self.stopping else self.chance.expovariate(1 / _MEAN_LIFE))
            if not life.done():
                if self.stopping:
                    await life
                else:
                    life.cancel()
                    await asyncio.wait([life])
            if life.done() and not life.cancelled():
                life.result()
                return
            self.cluster.note(self.name, "dies")
            await self.client.close()
            self.be_born()
            await asyncio.sleep(self.chance.expovariate(1.0))

    def be_born(self) -> None:
        self.life = Life()

    async def _live(self) -> None:
        while not (self.stopping and self._is_at_end()):
            try:
                await self._round()
            except ClientError as error:
                self.cluster.note(self.name, "waits:", error)
                self.life.coordinator = None
                await self.back_off()
            except KafkaError as error:
                self._take(error)
                await self.back_off()
        await self.retire()
        await self._leave()

    def _is_at_end(self) -> bool:
        """Whether the whole group has reached the end: other members may never return to their partitions."""
        partitions = [TopicPartition(TOPIC, index) for index in range(self.cluster.plan.partitions)]
        known = self.history.group.known
        return all(known(partition) >= log_end(self.cluster, partition) for partition in partitions)

    async def retire(self) -> None:
        """End open transactions."""

    def _take(self, error: KafkaError) -> None:
        self.cluster.note(self.name, "got an error:", error)
        life = self.life
        if error.code not in self.expected:
            self.history.violations.append(f"{self.name} got {error.code.name}: {error}")
        if error.code in _REMOVED_FROM_GROUP:
            self.rejoin_as_new_member()
        elif error.code is ErrorCode.REBALANCE_IN_PROGRESS:
            life.seat = None
        else:
            life.coordinator = None

    def rejoin_as_new_member(self) -> None:
        life = self.life
        life.member_id, life.seat, life.last_generation, life.is_certain = "", None, -1, True

    async def _round(self) -> None:
        life = self.life
        if life.coordinator is None:
            life.coordinator = await self.client.coordinator(GROUP)
        if life.seat is None:
            certain, life.is_certain = life.is_certain, False
            await self._join(life.coordinator, certain)
        else:
            await self._heartbeat(life.coordinator, life.seat)
            await self._work_once(life.seat)

    async def _work_once(self, seat: Seat) -> None:
        works = []
        for index in seat.partitions:
            work = await self._read(TopicPartition(TOPIC, index), self.life.positions[index])
            if work.values:
                works.append(work)
        if works:
            try:
                counts = await self.handle(works)
            except (ClientError, KafkaError):
                self.rejoin_as_new_member()
                raise
            if counts:
                self.life.positions.update({work.partition.partition: work.next_offset for work in works})
        await asyncio.sleep(self.chance.expovariate(5.0))

    async def _read(self, partition: TopicPartition, offset: int) -> Work:
        """Read a few of the available records."""
        fetched = await Fetcher(self.client, partition, FetchSettings(max_wait_ms=50)).fetch(offset)
        values: dict[int, bytes] = {}
        most = self.chance.randint(1, _MOST_RECORDS)
        for position, header in iter_headers(fetched.records):
            for record in read_records(fetched.records[position : position + header.size]):
                if record.offset >= offset and len(values) < most:
                    values[record.offset] = record.value or b""
        return Work(partition, values, max(values) + 1 if values else offset)

    # The group's protocol

    async def _join(self, coordinator: int, is_certain: bool) -> None:
        life, began = self.life, self.cluster.scheduler.now
        joined = await self._ask_to_join(coordinator)
        if joined.generation_id <= life.last_generation:
            # A coordinator that does not know yet that it was replaced repeats an old response.
            self.rejoin_as_new_member()
            return
        assignments: Mapping[str, list[int]] = {}
        if joined.leader == joined.member_id:
            assignments = self._assign([member.member_id for member in joined.members])
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            protocol_type=joined.protocol_type,
            protocol_name=joined.protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=bytes(indexes))
                for member_id, indexes in assignments.items()
            ],
        )
        synced = await self.client.call(coordinator, request, SyncGroupResponse)
        check(synced.error_code, f"sync of {self.name}")
        seat = Seat(joined.generation_id, joined.member_id, tuple(synced.assignment), began, is_certain)
        self.cluster.note(self.name, "has", seat)
        self.history.group.sit_down(seat, self.cluster.scheduler.now)
        await self._find_positions(coordinator, seat)
        life.seat, life.last_generation, life.is_certain = seat, seat.generation, is_certain

    async def _ask_to_join(self, coordinator: int) -> JoinGroupResponse:
        life = self.life
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=_SESSION_MS,
            rebalance_timeout_ms=_REBALANCE_MS,
            member_id=life.member_id,
            protocol_type=_PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name="any", metadata=b"")],
        )
        joined = await self.client.call(coordinator, request, JoinGroupResponse)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            life.member_id, life.is_certain = joined.member_id, True
        check(joined.error_code, f"join of {self.name}")
        life.member_id = joined.member_id
        return joined

    def _assign(self, members: list[str]) -> Mapping[str, list[int]]:
        self.chance.shuffle(members)
        found: dict[str, list[int]] = {member: [] for member in members}
        for index in range(self.cluster.plan.partitions):
            found[members[index % len(members)]].append(index)
        return found

    async def _heartbeat(self, coordinator: int, seat: Seat) -> None:
        request = HeartbeatRequest(group_id=GROUP, generation_id=seat.generation, member_id=seat.member_id)
        reply = await self.client.call(coordinator, request, HeartbeatResponse)
        check(reply.error_code, f"heartbeat of {self.name}")

    async def _find_positions(self, coordinator: int, seat: Seat) -> None:
        """Ask the coordinator that has just written the generation: a coordinator replaced before that knows less."""
        if not seat.partitions:
            return
        topic = OffsetFetchRequestTopic(name=TOPIC, partition_indexes=list(seat.partitions))
        request = OffsetFetchRequest(group_id=GROUP, topics=[topic], require_stable=True)
        while True:
            reply = await self.client.call(coordinator, request, OffsetFetchResponse, highest=ONE_GROUP_FETCH)
            answers = [answer for found in reply.topics for answer in found.partitions]
            codes = [reply.error_code, *(answer.error_code for answer in answers)]
            if ErrorCode.UNSTABLE_OFFSET_COMMIT not in codes:
                break
            await asyncio.sleep(0.1)
            await self._heartbeat(coordinator, seat)
        for code in codes:
            check(code, "committed offsets")
        for answer in answers:
            partition = TopicPartition(TOPIC, answer.partition_index)
            self.history.group.find(seat, partition, answer.committed_offset)
            self.history.group.commit(partition, answer.committed_offset, self.cluster.scheduler.now)
            self.life.positions[answer.partition_index] = max(0, answer.committed_offset)

    async def _leave(self) -> None:
        """Leave the group. Errors are ignored."""
        life = self.life
        try:
            coordinator = await self.client.coordinator(GROUP)
            request = LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id=life.member_id)])
            await self.client.call(coordinator, request, LeaveGroupResponse)
        except (ClientError, KafkaError):
            pass


class Worker(Member):
    """Commits after processing: at least once."""

    async def handle(self, works: Sequence[Work]) -> bool:
        seat, coordinator = self.life.seat, self.life.coordinator
        assert seat is not None
        assert coordinator is not None
        self.history.group.do(works)
        wanted = [
            OffsetCommitRequestPartition(
                partition_index=work.partition.partition, committed_offset=work.next_offset, committed_metadata=""
            )
            for work in works
        ]
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=seat.generation,
            member_id=seat.member_id,
            topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=wanted)],
        )
        reply = await self.client.call(coordinator, request, OffsetCommitResponse, highest=NAMED_COMMIT)
        for answer in reply.topics[0].partitions:
            check(answer.error_code, "a commit")
        self.cluster.note(self.name, "committed", [(work.partition.partition, work.next_offset) for work in works])
        for work in works:
            self.history.group.commit(work.partition, work.next_offset, self.cluster.scheduler.now)
        return True


class Observer(SimClient):
    """Reads the group's offsets at intervals, like a tool that monitors lag."""

    async def work(self) -> None:
        while not self.stopping:
            try:
                for index, offset in (await self.look()).items():
                    self.history.group.commit(TopicPartition(TOPIC, index), offset, self.cluster.scheduler.now)
            except (ClientError, KafkaError):
                await self.back_off()
            await asyncio.sleep(self.chance.expovariate(3.0))

    async def look(self) -> dict[int, int]:
        coordinator = await self.client.coordinator(GROUP)
        topic = OffsetFetchRequestTopic(name=TOPIC, partition_indexes=list(range(self.cluster.plan.partitions)))
        request = OffsetFetchRequest(group_id=GROUP, topics=[topic], require_stable=True)
        reply = await self.client.call(coordinator, request, OffsetFetchResponse, highest=ONE_GROUP_FETCH)
        check(reply.error_code, "committed offsets")
        for answer in reply.topics[0].partitions:
            check(answer.error_code, "committed offsets")
        return {answer.partition_index: answer.committed_offset for answer in reply.topics[0].partitions}


class LastLook(Observer):
    """Reads the group's offsets after the run."""

    found: dict[int, int] | None = None

    async def work(self) -> None:
        while self.found is None:
            try:
                self.found = await self.look()
            except (ClientError, KafkaError):
                await self.back_off()
