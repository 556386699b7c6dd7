"""The loads, one file per family. A file offers `cases()`; this table says in which order families run."""

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
"""Those on shared, warm brokers first; from `memory` on, every pass starts a broker of its own."""
