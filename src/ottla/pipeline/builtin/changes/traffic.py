"""Generates changes of customers: new customers, new addresses, orders and deletions."""

import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from ottla.pipeline.traffic import Event

TOPICS = {"customers.changes": 3}

_CITIES = ("Graz", "Lyon", "Turku", "Brno", "Porto", "Gent", "Bari", "Lund")
_NAMES = ("Ada", "Ben", "Cleo", "Dora", "Emil", "Frida", "Gus", "Hana")


def events(start: datetime, seed: int = 1) -> Iterator[Event]:
    chance = random.Random(seed)
    customers: dict[int, dict[str, Any]] = {}
    moment, last_id = 0.0, 0
    while True:
        moment += chance.expovariate(1 / 5)
        at = start + timedelta(seconds=moment)
        draw = chance.random()
        if not customers or draw < 0.2:
            last_id += 1
            row: dict[str, Any] = {"name": chance.choice(_NAMES), "city": chance.choice(_CITIES), "orders": 0}
            customers[last_id] = row
            yield _event(last_id, "create", row, at)
            continue
        chosen = chance.choice(list(customers))
        if draw < 0.25:
            yield _event(chosen, "delete", customers.pop(chosen), at)
            continue
        row = customers[chosen]
        if draw < 0.4:
            row["city"] = chance.choice(_CITIES)
        else:
            row["orders"] += 1
        yield _event(chosen, "update", row, at)


def _event(identity: int, op: str, row: dict[str, Any], at: datetime) -> Event:
    return Event("customers.changes", str(identity), {"id": identity, "op": op, **row, "at": at}, at)
