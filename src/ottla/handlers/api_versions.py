"""ApiVersions (18), versions 0-4: the served APIs, derived from the registry.

Clients send this request before they know which versions the broker serves. If the version is too new, the broker
replies in version 0 with UNSUPPORTED_VERSION and the full list, so that the client can choose again (KIP-511).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from ottla.errors import ErrorCode
from ottla.txn.commands import PROTOCOL_1, PROTOCOL_2
from ottla.wire.api.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange, Reply

_TRANSACTIONS = "transaction.version"
"""The feature that makes producers use transaction protocol 2 (KIP-890)."""

_SOFTWARE_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-")


def handle(broker: Broker, exchange: Exchange, request: ApiVersionsRequest) -> Reply:
    if exchange.api_version >= 3 and not (
        _is_software_name(request.client_software_name) and _is_software_name(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    response = ApiVersionsResponse(api_keys=_served(), finalized_features_epoch=0)
    response.finalized_features = [
        FinalizedFeatureKey(name=_TRANSACTIONS, min_version_level=PROTOCOL_2, max_version_level=PROTOCOL_2)
    ]
    if exchange.api_version >= 4:  # Older clients reject a range that begins at zero (KIP-1022).
        response.supported_features = [
            SupportedFeatureKey(name=_TRANSACTIONS, min_version=PROTOCOL_1, max_version=PROTOCOL_2)
        ]
    return response


def handle_unsupported_version(broker: Broker, exchange: Exchange, request: None) -> Reply:
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=_served())


def _is_software_name(text: str) -> bool:
    """KIP-511: letters, digits, dots and dashes. The first and the last character are a letter or a digit."""
    return bool(text) and set(text) <= _SOFTWARE_NAME and text[0] not in ".-" and text[-1] not in ".-"


@cache
def _served() -> list[ApiVersion]:
    from ottla.handlers.registry import HANDLERS

    return [
        ApiVersion(api_key=key, min_version=served.advertised_from, max_version=served.api.max_version)
        for key, served in sorted(HANDLERS.items())
    ]
