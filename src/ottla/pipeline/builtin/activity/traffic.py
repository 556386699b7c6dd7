"""Generates the activity of users on a site: page views, searches and clicks, with a rate that varies over time."""

import heapq
import itertools
import math
import random
from collections.abc import Iterator
from datetime import datetime, timedelta

from ottla.pipeline.traffic import Event

TOPICS = {"activity.views": 2, "activity.searches": 2, "activity.clicks": 2}

_PAGES = (
    "/",
    "/news",
    "/shop",
    "/sport",
    "/weather",
    "/books",
    "/films",
    "/music",
    "/travel",
    "/help",
    "/jobs",
    "/about",
)
_QUERIES = ("lamp", "desk", "novel", "rain coat", "piano", "atlas", "chess", "kettle", "bicycle", "garden")
_VISITS_PER_MINUTE = 40.0
_BREAKING_NEWS = (3600.0, 6000.0)
"""Start and end, in seconds after the start of the traffic, of a period in which half of all views are /news."""


def events(start: datetime, seed: int = 1) -> Iterator[Event]:
    """Endless, ordered by time."""
    chance = random.Random(seed)
    numbers = itertools.count()
    coming = 0.0
    running: list[tuple[float, int, Event, Iterator[tuple[float, Event]]]] = []
    while True:
        while not running or running[0][0] >= coming:
            visit = _visit(chance, start, coming, next(numbers))
            moment, event = next(visit)
            heapq.heappush(running, (moment, next(numbers), event, visit))
            coming += chance.expovariate(_visits_per_second(coming))
        _, number, event, visit = heapq.heappop(running)
        yield event
        following = next(visit, None)
        if following is not None:
            heapq.heappush(running, (following[0], number, following[1], visit))


def _visits_per_second(seconds: float) -> float:
    """A sine wave like that of a day, but with a period of an hour, so that short runs show it."""
    return _VISITS_PER_MINUTE / 60 * (1 + 0.5 * math.sin(seconds / 1800 * math.pi))


def _visit(chance: random.Random, start: datetime, moment: float, number: int) -> Iterator[tuple[float, Event]]:
    """The events of one user: at least one page view, then more views or searches, with pauses."""
    user = f"user-{chance.randrange(30_000)}"
    referrer = chance.choice(("direct", "search engine", "mail", "friend"))
    for step in itertools.count():
        at = start + timedelta(seconds=moment)
        if step and chance.random() < 0.28:
            search = f"{number}-{step}"
            query = _QUERIES[min(int(chance.expovariate(0.4)), len(_QUERIES) - 1)]
            yield (
                moment,
                Event("activity.searches", user, {"search": search, "user": user, "query": query, "at": at}, at),
            )
            position = _clicked_position(chance)
            if position is not None:
                moment += 2 + chance.expovariate(1 / 15)
                at = start + timedelta(seconds=moment)
                found = {"search": search, "user": user, "page": _page(chance, moment), "position": position, "at": at}
                yield moment, Event("activity.clicks", user, found, at)
        else:
            view = {"user": user, "page": _page(chance, moment), "referrer": referrer, "at": at}
            yield moment, Event("activity.views", user, view, at)
        if chance.random() < 0.2:
            return
        moment += 1 + chance.expovariate(1 / 40)


def _page(chance: random.Random, moment: float) -> str:
    begin, end = _BREAKING_NEWS
    if begin <= moment < end and chance.random() < 0.5:
        return "/news"
    return _PAGES[(int(chance.paretovariate(0.9)) - 1) % len(_PAGES)]


def _clicked_position(chance: random.Random) -> int | None:
    """The user goes through the results and, at each one, clicks or gives up with some probability."""
    for position in range(1, 11):
        if chance.random() < 0.22:
            return position
        if chance.random() < 0.3:
            return None
    return None
