"""Yields to the event loop while a handler processes a long list of a request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from ottla.env.clock import Clock

T = TypeVar("T")

_SLICE_SECONDS = 0.02


async def yielding(clock: Clock, items: Iterable[T]) -> AsyncIterator[T]:
    """The items one by one. After each slice of time, the event loop runs other work."""
    end = clock.monotonic() + _SLICE_SECONDS
    for item in items:
        yield item
        if clock.monotonic() > end:
            await asyncio.sleep(0)
            end = clock.monotonic() + _SLICE_SECONDS
