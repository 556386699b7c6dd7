"""A long list in a request is worked on in turns with everybody else's requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from ottla.env.clock import Clock

T = TypeVar("T")

_TURN_SECONDS = 0.02


async def yielding(clock: Clock, items: Iterable[T]) -> AsyncIterator[T]:
    """The items one by one, with a pause for others whenever the turn is over."""
    end = clock.monotonic() + _TURN_SECONDS
    for item in items:
        yield item
        if clock.monotonic() > end:
            await asyncio.sleep(0)
            end = clock.monotonic() + _TURN_SECONDS
