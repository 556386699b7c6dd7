"""The same request to Apache Kafka and to Ottla: both must give the same answer.

`python -m tests.compat.differential [part of a name]` prints both answers of every chosen case that differs.
"""
