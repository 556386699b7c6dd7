"""Generates clicks to export."""

import random
from collections.abc import Iterator
from datetime import datetime, timedelta

from ottla.pipeline.parameters import parameter
from ottla.pipeline.traffic import Event

TOPIC = parameter("topic", "clicks")
TOPICS = {TOPIC: 3}


def events(start: datetime, seed: int = 1) -> Iterator[Event]:
    chance = random.Random(seed)
    moment = 0.0
    while True:
        moment += chance.expovariate(5)
        at = start + timedelta(seconds=moment)
        user = f"user-{chance.randrange(500)}"
        yield Event(TOPIC, user, {"user": user, "page": f"/page-{int(chance.paretovariate(1))}", "at": at}, at)
