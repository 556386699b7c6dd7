"""Convert between the log and Spark: record batches become Arrow columns, and Arrow columns become records.

`varints`, `batches`, `headers` and `columns` decode records. `options`, `bounds` and `selection` parse the options of
Spark's Kafka source. `reading` and `writing` run in tasks. The modules that import pyspark are in `pyspark_ottla`.
"""
