"""Who is on the other end of a connection: where it came in, from where, and as whom."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from ottla.coordinator_core.transitions import Transitions

if TYPE_CHECKING:
    from ottla.env.network import Address

ANONYMOUS = "User:ANONYMOUS"
"""Kafka's principal of a client that did not authenticate."""


class SessionState(Enum):
    OPEN = "open"
    CLOSED = "closed"


TRANSITIONS = Transitions(
    "a session",
    SessionState.OPEN,
    SessionState.CLOSED,
    {
        SessionState.OPEN: {SessionState.CLOSED: "the client hangs up, or the broker does"},
        SessionState.CLOSED: {},
    },
)
"""A plaintext session is open from the start. States for a TLS handshake and for SASL come before `OPEN`."""


class Session:
    """One client connection, as handlers see it. Quotas are kept per principal and client id."""

    __slots__ = ("listener", "local", "peer", "principal", "state")

    def __init__(self, listener: str, local: Address, peer: Address) -> None:
        self.listener = listener
        self.local = local
        self.peer = peer
        self.principal = ANONYMOUS
        self.state = SessionState.OPEN

    def close(self) -> None:
        TRANSITIONS.check(self.state, SessionState.CLOSED)
        self.state = SessionState.CLOSED
