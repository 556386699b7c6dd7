"""Classic groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, DescribeGroups, ListGroups, DeleteGroups."""

from ottla.wire.api.delete_groups import DeleteGroupsRequest
from ottla.wire.api.describe_groups import DescribeGroupsRequest
from ottla.wire.api.heartbeat import HeartbeatRequest
from ottla.wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.api.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.api.list_groups import ListGroupsRequest
from ottla.wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.compat.differential.case import Build, Talk, case, versions

JOIN, SYNC, BEAT, LEAVE, DESCRIBE, DELETE = range(10), range(6), range(5), range(6), range(7), range(3)


def join(
    group: str,
    member: str = "",
    *,
    protocols: tuple[str, ...] = ("range",),
    kind: str = "consumer",
    session: int = 10_000,
    rebalance: int = 10_000,
    instance: str | None = None,
) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session,
        rebalance_timeout_ms=rebalance,
        member_id=member,
        group_instance_id=instance,
        protocol_type=kind,
        protocols=[JoinGroupRequestProtocol(name=name, metadata=b"m") for name in protocols],
    )


def sync(
    group: str,
    generation: int = 1,
    member: str = "nobody",
    *,
    kind: str | None = "consumer",
    name: str | None = "range",
    instance: str | None = None,
    assigned: tuple[str, ...] = (),
) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member,
        group_instance_id=instance,
        protocol_type=kind,
        protocol_name=name,
        assignments=[SyncGroupRequestAssignment(member_id=it, assignment=b"a") for it in assigned],
    )


def beat(group: str, generation: int = 1, member: str = "nobody", instance: str | None = None) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group, generation_id=generation, member_id=member, group_instance_id=instance)


def leave(group: str, *members: MemberIdentity, member: str = "nobody") -> LeaveGroupRequest:
    return LeaveGroupRequest(group_id=group, member_id=member, members=list(members))


def rejoin(group: str, **options: object) -> Build:
    """Join with the member id that the last reply assigned."""
    return lambda talk: join(group, talk.last.member_id, **options)  # type: ignore[arg-type]


def sync_as_member(group: str, **options: object) -> Build:
    """Synchronise as the member that joined last, which is the leader."""

    def build(talk: Talk) -> SyncGroupRequest:
        joined = _joined(talk)
        return sync(group, joined.generation_id, joined.member_id, assigned=(joined.member_id,), **options)  # type: ignore[arg-type]

    return build


def beat_as_member(group: str, generation: int | None = None, instance: str | None = None) -> Build:
    def build(talk: Talk) -> HeartbeatRequest:
        joined = _joined(talk)
        return beat(group, joined.generation_id if generation is None else generation, joined.member_id, instance)

    return build


def leave_as_member(group: str, *more: str) -> Build:
    def build(talk: Talk) -> LeaveGroupRequest:
        joined = _joined(talk)
        members = [MemberIdentity(member_id=member) for member in (joined.member_id, *more)]
        return leave(group, *members, member=joined.member_id)

    return build


def _joined(talk: Talk) -> JoinGroupResponse:
    return next(reply for reply in reversed(talk.replies) if isinstance(reply, JoinGroupResponse))


_NOBODY = MemberIdentity(member_id="nobody")
_NO_INSTANCE = MemberIdentity(member_id="", group_instance_id="no instance")

CASES = (
    *versions("JoinGroup with an empty group", JOIN, join("")),
    *versions("JoinGroup with an unknown member", JOIN, join("unknown", "nobody")),
    *versions("JoinGroup with a short session", JOIN, join("sessions", session=1)),
    *versions("JoinGroup with a long session", JOIN, join("sessions", session=60_001)),
    *versions("JoinGroup with a negative session", (0, 9), join("sessions", session=-1)),
    *versions("JoinGroup without protocols", JOIN, join("protocols", protocols=())),
    *versions("JoinGroup without a protocol type", JOIN, join("protocols", kind="")),
    *versions("JoinGroup without a member id", range(4, 10), join("new")),
    *versions("JoinGroup with an empty instance", (5, 9), join("empty instance", instance="")),
    case("JoinGroup with a bad instance", (9, join("bad instance", instance="a b"))),
    case("JoinGroup with a long instance", (9, join("long instance", instance="x" * 250))),
    *versions("JoinGroup with an unknown member of an instance", (5, 9), join("instances", "nobody", instance="one")),
    case(
        "JoinGroup and the rest of a life",
        (9, join("life")),
        (9, rejoin("life")),
        (5, sync_as_member("life")),
        (4, beat_as_member("life")),
        (4, beat_as_member("life", 7)),
        (4, beat_as_member("life", -1)),
        (5, leave_as_member("life", "nobody")),
        (4, beat_as_member("life")),
    ),
    case(
        "JoinGroup v3 and the rest of a life",
        (3, join("old life")),
        (2, sync_as_member("old life")),
        (2, beat_as_member("old life")),
        (2, leave_as_member("old life")),
        (2, leave_as_member("old life")),
    ),
    case(
        "JoinGroup with another type",
        (9, join("types")),
        (9, rejoin("types")),
        (9, join("types", kind="connect")),
        (9, join("types", protocols=("sticky",))),
    ),
    case(
        "SyncGroup with null protocols",
        (9, join("nulls")),
        (9, rejoin("nulls")),
        (5, sync_as_member("nulls", kind=None, name=None)),
        (5, sync_as_member("nulls", kind=None)),
        (5, sync_as_member("nulls", name=None)),
    ),
    case(
        "SyncGroup with other protocols",
        (9, join("others")),
        (9, rejoin("others")),
        (5, sync_as_member("others", kind="connect")),
        (5, sync_as_member("others", name="sticky")),
    ),
    case(
        "JoinGroup of an instance",
        (9, join("static", instance="one")),
        (9, join("static", instance="one")),
        (4, beat("static", 1, "nobody", "one")),
        (4, beat("static", 1, "nobody", "two")),
        (5, leave("static", MemberIdentity(member_id="nobody", group_instance_id="one"), _NO_INSTANCE)),
    ),
    *versions("SyncGroup of an unknown group", SYNC, sync("unknown")),
    *versions("SyncGroup of an empty group", SYNC, sync("")),
    *versions("SyncGroup of a group without members", SYNC, sync("known")),
    case(
        "SyncGroup v5 of an unknown group with null protocols",
        (5, sync("unknown", kind=None, name=None)),
    ),
    *versions("SyncGroup of an unknown instance", (3, 5), sync("known", instance="nobody")),
    *versions("Heartbeat of an unknown group", BEAT, beat("unknown")),
    *versions("Heartbeat of an empty group", BEAT, beat("")),
    *versions("Heartbeat of a group without members", BEAT, beat("known")),
    *versions("Heartbeat of an unknown instance", (3, 4), beat("known", instance="nobody")),
    *versions("Heartbeat with a negative generation", (0, 4), beat("known", -5)),
    *versions("LeaveGroup of an unknown group", LEAVE, leave("unknown", _NOBODY)),
    *versions("LeaveGroup of an empty group", LEAVE, leave("", _NOBODY)),
    *versions("LeaveGroup of a group without members", LEAVE, leave("known", _NOBODY)),
    *versions("LeaveGroup of an unknown instance", range(3, 6), leave("known", _NO_INSTANCE)),
    *versions("LeaveGroup of nobody", range(3, 6), leave("known")),
    *versions("LeaveGroup of somebody twice", range(3, 6), leave("known", _NOBODY, _NOBODY)),
    *versions("DescribeGroups", DESCRIBE, DescribeGroupsRequest(groups=["known"])),
    *versions(
        "DescribeGroups with operations",
        range(3, 7),
        DescribeGroupsRequest(groups=["known"], include_authorized_operations=True),
    ),
    *versions(
        "DescribeGroups of an unknown group",
        DESCRIBE,
        DescribeGroupsRequest(groups=["unknown"], include_authorized_operations=True),
    ),
    case(
        "DescribeGroups of an unknown group, the text",
        (6, DescribeGroupsRequest(groups=["unknown"])),
        texts=True,
    ),
    *versions("DescribeGroups of an empty group", DESCRIBE, DescribeGroupsRequest(groups=[""])),
    *versions(
        "DescribeGroups of the same group twice",
        DESCRIBE,
        DescribeGroupsRequest(groups=["known", "unknown", "known"]),
    ),
    *versions("DescribeGroups of nothing", DESCRIBE, DescribeGroupsRequest()),
    *versions("ListGroups in an unknown state", range(4, 6), ListGroupsRequest(states_filter=["Nope"])),
    case("ListGroups of an unknown type", (5, ListGroupsRequest(types_filter=["nope"]))),
    case("ListGroups in a state", (5, ListGroupsRequest(states_filter=["dead"], types_filter=["CLASSIC"]))),
    case("ListGroups of another type", (5, ListGroupsRequest(types_filter=["share"]))),
    *versions("DeleteGroups of an unknown group", DELETE, DeleteGroupsRequest(groups_names=["unknown"])),
    *versions("DeleteGroups of an empty group", DELETE, DeleteGroupsRequest(groups_names=[""])),
    *versions(
        "DeleteGroups of an unknown group twice",
        DELETE,
        DeleteGroupsRequest(groups_names=["unknown", "unknown"]),
    ),
    *versions("DeleteGroups of nothing", DELETE, DeleteGroupsRequest()),
    case(
        "DeleteGroups of a group twice",
        (2, DeleteGroupsRequest(groups_names=["doomed-group", "unknown", "doomed-group"])),
        unordered={"results"},
    ),
    case("DeleteGroups of a deleted group", (2, DeleteGroupsRequest(groups_names=["doomed-group"]))),
)
