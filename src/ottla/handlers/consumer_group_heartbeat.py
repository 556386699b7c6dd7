"""ConsumerGroupHeartbeat (68), versions 0-1: always rejected, because KIP-848 groups are not served.

Apache Kafka answers the same where this protocol is switched off. The API is advertised so that a client with
`group.protocol=consumer` sends the request and gets an error that it shows. librdkafka sends nothing and shows nothing
if the API is not advertised.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.errors import ErrorCode
from ottla.model import printable
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

if TYPE_CHECKING:
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange, Reply

logger = logging.getLogger("ottla.handlers")

_ADVICE = "group.protocol=consumer is not served; set group.protocol=classic"


def handle(broker: Broker, exchange: Exchange, request: ConsumerGroupHeartbeatRequest) -> Reply:
    client = exchange.client_id or ""
    if broker.notices.is_first(client, _ADVICE):
        logger.warning(
            "client '%s' at %s, group '%s': %s",
            printable(client),
            exchange.peer.host,
            printable(request.group_id),
            _ADVICE,
        )
    return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=_ADVICE)
