"""Heartbeat (12), versions 0-4: renews the session of a member. The reply tells it when to join again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import KafkaError
from ottla.wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange, Reply


def handle(broker: Broker, exchange: Exchange, request: HeartbeatRequest) -> Reply:
    try:
        code = broker.groups.heartbeat(
            request.group_id, request.member_id, request.group_instance_id, request.generation_id
        )
    except KafkaError as error:
        code = error.code
    return HeartbeatResponse(error_code=code)
