"""Spark and the log: whole record batches become Arrow columns, and Arrow columns become records.

`varints`, `batches`, `headers` and `columns` decode; `options` and `starting` understand what users of Spark's Kafka
source write; `reading` runs in tasks. The modules that need pyspark itself are in `pyspark_ottla`.
"""
