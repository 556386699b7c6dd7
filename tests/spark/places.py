"""A batch query as a program of its own: where each row of a topic was read.

python -m tests.spark.places MASTER BOOTSTRAP TOPIC prints a JSON list of [partition, offset, value, directory].
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from tests.spark.sessions import CONFIG


def main(master: str, bootstrap: str, topic: str) -> None:
    builder = SparkSession.builder.master(master)
    for key, value in {**CONFIG, "spark.executor.memory": "512m"}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "minPartitions": "4"}
    frame = (
        spark.read.format("ottla").options(**options).load().selectExpr("partition", "offset", "string(value) value")
    )

    def tell(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """An executor works in a directory below that of its worker."""
        for batch in batches:
            yield batch.append_column("directory", pa.array([str(Path.cwd())] * batch.num_rows))

    rows = frame.mapInArrow(tell, "partition int, offset bigint, value string, directory string").collect()
    print(json.dumps([list(row) for row in rows]))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
