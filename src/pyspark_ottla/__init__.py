"""`spark.read.format("ottla")`, `readStream`, `write` and `writeStream`: Kafka topics without a jar.

Spark finds this package by its name, once it is installed, and registers `DefaultSource`.
"""

from pyspark_ottla.source import OttlaDataSource as DefaultSource

__all__ = ["DefaultSource"]
