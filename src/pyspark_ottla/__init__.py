"""`spark.read.format("ottla")`, `readStream`, `write` and `writeStream`: Kafka topics in Spark without a jar.

Spark discovers the installed package by its name and registers `DefaultSource`.
"""

from pyspark_ottla.source import OttlaDataSource as DefaultSource

__all__ = ["DefaultSource"]
