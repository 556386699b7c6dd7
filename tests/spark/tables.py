"""Tables of the source, compared with what a plain consumer reads."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.spark import topics
from tests.spark.topics import Row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def table(spark: "SparkSession", bootstrap: str, topic: str, **more: str) -> "DataFrame":
    options = topics.options(bootstrap, topic, **{"includeHeaders": "true", **more})
    return spark.read.format("ottla").options(**options).load()


def collected(frame: "DataFrame") -> list[Row]:
    rows = []
    for row in frame.collect():
        headers = tuple((header["key"], _bytes(header["value"])) for header in row["headers"] or ())
        timestamp = round(row["timestamp"].timestamp() * 1000)
        key, value = _bytes(row["key"]), _bytes(row["value"])
        rows.append(Row(key, value, row["topic"], row["partition"], row["offset"], timestamp, headers))
    return sorted(rows, key=lambda row: (row.partition, row.offset))


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


def stream(spark: "SparkSession", bootstrap: str, topic: str, **more: str) -> "DataFrame":
    options = topics.options(bootstrap, topic, **{"startingOffsets": "earliest", **more})
    return spark.readStream.format("ottla").options(**options).load()


def run_to_topic(frame: "DataFrame", bootstrap: str, topic: str, checkpoint: Path, **more: str) -> list[int]:
    """Run what is available now; returns the rows of each micro-batch."""
    writer = frame.writeStream.format("ottla").option("kafka.bootstrap.servers", bootstrap).option("topic", topic)
    query = writer.options(**more).option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]


def forget_last_commit(checkpoint: Path) -> int:
    """Make Spark believe that it crashed after the last micro-batch was written and before it noted that."""
    commits = sorted(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdecimal())
    for name in (f"{commits[-1]}", f".{commits[-1]}.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)
    return commits[-1]
