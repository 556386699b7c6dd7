"""ListPartitionReassignments (46), version 0: ongoing reassignments, with adding and removing replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.cluster.reassignment import is_reassigning
from ottla.wire.api.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.cluster.image import PartitionState
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange, Reply


def handle(broker: Broker, exchange: Exchange, request: ListPartitionReassignmentsRequest) -> Reply:
    image = broker.metadata.image
    if request.topics is None:
        found = [_topic(topic.name, topic.partitions) for topic in image.topics.values()]
    else:
        found = [
            _topic(wanted.name, (image.partition(wanted.name, it) for it in dict.fromkeys(wanted.partition_indexes)))
            for wanted in request.topics
        ]
    return ListPartitionReassignmentsResponse(topics=[topic for topic in found if topic.partitions])


def _topic(name: str, states: Iterable[PartitionState | None]) -> OngoingTopicReassignment:
    return OngoingTopicReassignment(
        name=name,
        partitions=[
            OngoingPartitionReassignment(
                partition_index=state.partition,
                replicas=list(state.replicas),
                adding_replicas=list(state.adding_replicas),
                removing_replicas=list(state.removing_replicas),
            )
            for state in states
            if state is not None and is_reassigning(state)
        ],
    )
