"""Generates measurements of eight hosts every ten seconds. One host is overloaded for 15 minutes."""

import math
import random
from collections.abc import Iterator
from datetime import datetime, timedelta

from ottla.pipeline.traffic import Event

TOPICS = {"metrics": 3}

HOSTS = tuple(f"host-{number}" for number in range(1, 9))
_INTERVAL = 10.0
_BUSY = ("host-3", 1500.0, 2400.0)


def events(start: datetime, seed: int = 1) -> Iterator[Event]:
    chance = random.Random(seed)
    round_ = 0
    while True:
        for number, host in enumerate(HOSTS):
            moment = round_ * _INTERVAL + number * _INTERVAL / len(HOSTS)
            at = start + timedelta(seconds=moment)
            for name, value in _measure(chance, host, number, moment).items():
                yield Event("metrics", host, {"host": host, "name": name, "value": round(value, 2), "at": at}, at)
        round_ += 1


def _measure(chance: random.Random, host: str, number: int, moment: float) -> dict[str, float]:
    busy_host, begin, end = _BUSY
    wave = math.sin(moment / 1800 * math.pi + number)
    cpu = 97.0 if host == busy_host and begin <= moment < end else 45 + 20 * wave
    return {
        "cpu": min(100.0, max(0.0, chance.gauss(cpu, 3))),
        "memory": min(100.0, max(0.0, chance.gauss(60 + number * 3, 1))),
        "requests": max(0.0, chance.gauss(200 + 120 * wave, 20)),
    }
