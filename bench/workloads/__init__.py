"""The loads, one file per family. Each file has a function `cases`. The table below defines the order."""

from collections.abc import Callable

from bench.case import Case, Scale
from bench.workloads import (
    cluster,
    consume,
    fsync,
    latency,
    librdkafka,
    longpoll,
    memory,
    null,
    produce,
    requests,
    scaling,
    spark,
    start,
)

FAMILIES: dict[str, Callable[[Scale], list[Case]]] = {
    "produce": produce.cases,
    "consume": consume.cases,
    "latency": latency.cases,
    "requests": requests.cases,
    "longpoll": longpoll.cases,
    "null": null.cases,
    "librdkafka": librdkafka.cases,
    "fsync": fsync.cases,
    "scaling": scaling.cases,
    "spark": spark.cases,
    "cluster": cluster.cases,
    "memory": memory.cases,
    "start": start.cases,
}
"""Families on shared, warm brokers come first. From `memory` on, every pass starts a new broker."""
