"""DescribeCluster (60), versions 0-2: the cluster's id, controller and brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode
from ottla.handlers.endpoints import endpoints
from ottla.handlers.operations import NOT_ASKED, ON_CLUSTER
from ottla.wire.api.describe_cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange, Reply

_BROKERS = 1
_CONTROLLERS = 2
_MAX_LINES = 20


def handle(broker: Broker, exchange: Exchange, request: DescribeClusterRequest) -> Reply:
    if request.endpoint_type != _BROKERS:
        known = request.endpoint_type == _CONTROLLERS
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message="this is the endpoint of a broker"
            if known
            else f"unknown endpoint type {request.endpoint_type}",
            endpoint_type=_BROKERS,
        )
    return DescribeClusterResponse(
        error_message=_damage(broker.metadata.image.damaged),
        cluster_id=broker.cluster_id,
        controller_id=broker.metadata.controller_for_clients,
        cluster_authorized_operations=ON_CLUSTER if request.include_cluster_authorized_operations else NOT_ASKED,
        brokers=[
            DescribeClusterBroker(broker_id=node.id, host=node.host, port=node.port, rack=node.rack)
            for node in endpoints(broker, exchange)
        ],
    )


def _damage(damaged: Mapping[str, str]) -> str | None:
    """The damaged nodes of the store, for `ottla doctor`. Clients ignore the message if there is no error code."""
    lines = [f"{path!r}: {reason}" for path, reason in damaged.items()]
    if len(lines) > _MAX_LINES:
        lines[_MAX_LINES:] = [f"and {len(lines) - _MAX_LINES} more"]
    return "\n".join(lines) or None
