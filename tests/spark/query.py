"""A streaming query as a program of its own, which a test can kill.

python -m tests.spark.query BOOTSTRAP SOURCE SINK CHECKPOINT DELIVERY
"""

import os
import sys

from pyspark.sql import SparkSession

from tests.spark.conftest import CONFIG


def main(bootstrap: str, source: str, sink: str, checkpoint: str, delivery: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2,4]")
    for key, value in CONFIG.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": source, "startingOffsets": "earliest"}
    frame = spark.readStream.format("ottla").options(**options, maxOffsetsPerTrigger="500").load()
    writer = frame.select("key", "value").writeStream.format("ottla").option("kafka.bootstrap.servers", bootstrap)
    writer = writer.option("topic", sink).option("delivery", delivery).option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
