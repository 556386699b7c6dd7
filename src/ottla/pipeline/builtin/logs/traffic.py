"""Generates log lines of several services. One service has an outage of 15 minutes."""

import random
from collections.abc import Iterator
from datetime import datetime, timedelta

from ottla.pipeline.traffic import Event

TOPICS = {"logs": 3}

_SERVICES = {"web": 1.2, "checkout": 0.6, "search": 0.6, "mail": 0.2}
"""Lines per second."""
_OUTAGE = (1200.0, 2100.0)
_MESSAGES = {
    "DEBUG": "cache {number}: hit",
    "INFO": "request {number} done in {ms} ms",
    "WARN": "request {number} took {ms} ms, more than expected",
    "ERROR": "request {number} failed: upstream did not answer",
}


def events(start: datetime, seed: int = 1) -> Iterator[Event]:
    chance = random.Random(seed)
    moment = 0.0
    names, weights = list(_SERVICES), list(_SERVICES.values())
    while True:
        moment += chance.expovariate(sum(weights))
        at = start + timedelta(seconds=moment)
        [service] = chance.choices(names, weights)
        level = _level(chance, service, moment)
        message = _MESSAGES[level].format(number=chance.randrange(100_000), ms=int(chance.expovariate(1 / 120)))
        host = f"{service}-{chance.randrange(1, 4)}"
        value = {"service": service, "level": level, "message": message, "host": host, "at": at}
        yield Event("logs", service, value, at)


def _level(chance: random.Random, service: str, moment: float) -> str:
    begin, end = _OUTAGE
    errors = 0.35 if service == "checkout" and begin <= moment < end else 0.01
    draw = chance.random()
    if draw < errors:
        return "ERROR"
    return "WARN" if draw < errors + 0.05 else "DEBUG" if draw > 0.8 else "INFO"
