"""Orders with the cities of their customers, written to a topic exactly once and to parquet by day.

ottla pipeline run examples/pipelines/orders.py --set cities=cities.csv
"""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ottla.pipeline import parameter, pipeline, to_parquet, to_topic, topics

orders = topics(
    "orders",
    schema="id long not null, customer long not null, amount decimal(10, 2), at timestamp not null",
    dead_letters="orders.rejected",
    options={"kafka.isolation.level": "read_committed"},
)
CITIES = parameter("cities", "cities.csv")


@pipeline(
    orders,
    to=[
        to_topic("orders-with-city", key="id", delivery="exactly-once"),
        to_parquet("orders", date="at", compact_after=50),
    ],
)
def with_city(rows: DataFrame) -> DataFrame:
    """Each order with the city of its customer."""
    cities = SparkSession.active().read.csv(CITIES, header=True, schema="customer long, city string")
    known = rows.join(F.broadcast(cities), "customer", "left")
    return known.select("id", "customer", "amount", F.coalesce("city", F.lit("unknown")).alias("city"), "at")
